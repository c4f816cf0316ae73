/** `scripts/run`: the one program that SKILL.md names, whatever is behind it. Plain sh, since it runs before each step. */

export const LEAST_NODE = 20;

/** Agents start it from anywhere, also by a link to it. */
const FOLDER = `self=$0
if [ -L "$self" ]; then self=$(readlink -f -- "$self"); fi
case $self in */*) ;; *) self=./$self ;; esac
skill=\${self%/*}/..`;

/** @param file  below `bin/` */
export function nodeScript(name: string, file: string): string {
  return `#!/bin/sh
${FOLDER}
version=$(node --version 2>/dev/null) || {
  echo "error: ${name} needs Node.js ${LEAST_NODE} or newer, and there is no node on the PATH. Get it from https://nodejs.org" >&2
  exit 1
}
major=\${version#v}
if [ "\${major%%.*}" -lt ${LEAST_NODE} ]; then
  echo "error: ${name} needs Node.js ${LEAST_NODE} or newer; the node on the PATH is $version. Get it from https://nodejs.org" >&2
  exit 1
fi
exec node "$skill/bin/${file}" "$@"
`;
}

/** @param targets  as they end the names of the executables, e.g. `linux-x64` */
export function executableScript(name: string, targets: readonly string[]): string {
  return `#!/bin/sh
${FOLDER}
os=$(uname -s | tr '[:upper:]' '[:lower:]')
arch=$(uname -m)
case $arch in x86_64 | amd64) arch=x64 ;; aarch64) arch=arm64 ;; esac
program=$skill/bin/${name}-$os-$arch
if [ ! -x "$program" ]; then
  echo "error: ${name} was built for ${targets.join(', ')}, and this is $os-$arch. Build it again: voidbox skill build … --mode bun --targets $os-$arch" >&2
  exit 1
fi
exec "$program" "$@"
`;
}
