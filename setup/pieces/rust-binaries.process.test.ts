import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readEnvironment } from '../environment.ts';
import { readHostSystem } from '../machine/host-system.ts';
import type { SetupContext } from './piece.ts';
import { AGENT_BINARY, getBinary, KEEPER_BINARY, MOCK_AGENT_BINARY } from './rust-binaries.ts';

let folder: string;

/** A cargo for which times of files show no change: it considers the target folder fresh until it is cleaned. */
const CARGO = `#!/bin/sh
out="$CARGO_TARGET_DIR/x86_64-unknown-linux-musl/release"
case "$1" in
  --version) echo 'cargo 1.90.0 (fake)' ;;
  clean) rm -rf "$out" ;;
  build)
    echo "$@" > "$CARGO_TARGET_DIR/arguments"
    if [ ! -e "$out" ]; then
      mkdir -p "$out"
      for name in ${KEEPER_BINARY} ${AGENT_BINARY} ${MOCK_AGENT_BINARY}; do
        { echo '#!/bin/sh'; cat Cargo.toml; } > "$out/$name"
        chmod 755 "$out/$name"
      done
      sleep 0.2
    fi ;;
esac
`;

function putProgram(name: string, text: string): void {
  writeFileSync(join(folder, 'bin', name), text);
  chmodSync(join(folder, 'bin', name), 0o755);
}

function checkout(version: string): SetupContext {
  const packageRoot = join(folder, version);
  mkdirSync(packageRoot);
  writeFileSync(join(packageRoot, 'Cargo.toml'), `version = "${version}"\n`);
  const env = readEnvironment({ HOME: folder, PATH: join(folder, 'bin'), VOIDBOX_CACHE_DIR: join(folder, 'cache') });
  return {
    env,
    system: readHostSystem(),
    packageRoot,
    kernelKind: 'debian',
    progress: () => undefined,
    need: () => Promise.reject(new Error('not asked for')),
  };
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-binaries-'));
  mkdirSync(join(folder, 'bin'));
  for (const name of ['sh', 'flock', 'cat', 'rm', 'mkdir', 'chmod', 'sleep'])
    symlinkSync(`/usr/bin/${name}`, join(folder, 'bin', name));
  putProgram('cargo', CARGO);
  putProgram('rustc', `#!/bin/sh\necho ${folder}\n`);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('checkouts that share a cache, one after the other and at once, each get what their own sources make', async () => {
  const texts = async (version: string): Promise<string[]> => {
    const context = checkout(version);
    return Promise.all(
      [KEEPER_BINARY, AGENT_BINARY].map(async (name) => readFileSync((await getBinary(context, name)).path, 'utf8')),
    );
  };
  const expected = (version: string): string[] =>
    Array.from({ length: 2 }, () => `#!/bin/sh\nversion = "${version}"\n`);
  expect(await texts('1.0.0')).toEqual(expected('1.0.0'));
  expect(await texts('2.0.0')).toEqual(expected('2.0.0'));
  const versions = ['3.0.0', '4.0.0', '5.0.0'];
  expect(await Promise.all(versions.map(texts))).toEqual(versions.map(expected));
});

it('a build names its packages, so that cargo downloads nothing for the rest of the workspace', async () => {
  await getBinary(checkout('1.0.0'), KEEPER_BINARY);
  const words = readFileSync(join(folder, 'cache', 'cargo-target', 'arguments'), 'utf8')
    .trim()
    .split(' ');
  const named = words.filter((_, at) => words[at - 1] === '-p');
  expect(named).toContain('voidbox-keeper');
  expect(named).not.toContain('voidbox-vmm');
});
