import type { Problems } from './problems.ts';
import { type NumberRange, readBoolean, readEntries, readList, readMap, readNumber, readPlainText, readText, readWord, type UnsupportedKey } from './reader.ts';
import type { EnvSpec, MountSpec, SandboxSpec } from './spec.ts';
import { type Located, quote, type TreeNode } from './tree.ts';

/** Ranges that docs/spec.md states. */
export const SANDBOX_RANGES = {
  memoryMib: { min: 128, max: 65_536, integer: true, unit: 'MiB' },
  vcpus: { min: 1, max: 64, integer: true, unit: 'virtual CPUs' },
  diskMib: { min: 64, max: 1_048_576, integer: true, unit: 'MiB' },
} as const satisfies Record<string, NumberRange>;

const MODES = ['auto', 'qemu', 'mock', 'local'] as const;
const ISOLATION = ['microvm', 'process', 'none'] as const;

const OWN_IMAGE = 'take it out: VMs run the guest image that Voidbox brings';

const UNSUPPORTED: Readonly<Record<string, UnsupportedKey>> = {
  image: { severity: 'error', message: 'not supported yet: `image` of a sandbox', remedy: OWN_IMAGE },
  guest_image: { severity: 'error', message: 'not supported yet: `guest_image` of a sandbox', remedy: OWN_IMAGE },
  kernel: { severity: 'error', message: 'not supported yet: `kernel` of a sandbox', remedy: OWN_IMAGE },
  initramfs: { severity: 'error', message: 'not supported yet: `initramfs` of a sandbox', remedy: OWN_IMAGE },
  snapshot: { severity: 'error', message: 'not supported yet: `snapshot` of a sandbox', remedy: 'take it out: each VM boots fresh' },
};

export function readSandbox(node: TreeNode | null, what: string, problems: Problems): SandboxSpec | null {
  const map = readMap(node, what, problems);
  if (map === null) return null;
  const mode = readWord(map.optional('mode'), `\`mode\` of ${what}`, MODES, problems);
  const isolation = readWord(map.optional('isolation'), `\`isolation\` of ${what}`, ISOLATION, problems);
  const network = map.optional('network');
  if (network !== null && readBoolean(network, `\`network\` of ${what}`, problems) === true) {
    problems.error(
      'spec/no-network',
      network.at,
      `${what} asks for network; guests get none until there is an egress policy`,
      'take `network: true` out; bring data in with `mounts` or `inputs`',
    );
  }
  const number = (key: string, range: NumberRange): number | null => readNumber(map.optional(key), `\`${key}\` of ${what}`, range, problems);
  const sandbox: SandboxSpec = {
    at: map.at,
    mode: mode === null ? null : { value: mode.value === 'local' ? 'auto' : mode.value, at: mode.at },
    isolation,
    memoryMib: number('memory_mb', SANDBOX_RANGES.memoryMib),
    vcpus: number('vcpus', SANDBOX_RANGES.vcpus),
    diskMib: number('disk_mb', SANDBOX_RANGES.diskMib),
    env: readEnv(map.optional('env'), `\`env\` of ${what}`, problems),
    mounts: readList(map.optional('mounts'), `\`mounts\` of ${what}`, problems).flatMap((item) => readMount(item, what, problems) ?? []),
  };
  map.finish(UNSUPPORTED);
  return sandbox;
}

function readMount(node: TreeNode, what: string, problems: Problems): MountSpec | null {
  const map = readMap(node, `a mount of ${what}`, problems, mountForm);
  if (map === null) return null;
  const hostPath = readPlainText(map.required('host'), `\`host\` of a mount of ${what}`, problems);
  const guestPath = readPlainText(map.required('guest'), `\`guest\` of a mount of ${what}`, problems);
  const mode = readWord(map.optional('mode'), `\`mode\` of a mount of ${what}`, ['ro', 'rw'] as const, problems);
  map.finish();
  return hostPath === null || guestPath === null ? null : { at: map.at, hostPath, guestPath, mode: mode?.value ?? 'ro' };
}

/** Of a mount in the short form that container tools have. */
function mountForm(text: string): string {
  const [host = '', guest = '/workspace/data', mode] = text.split(':');
  return `{ host: ${host}, guest: ${guest}${mode === undefined ? '' : `, mode: ${mode}`} }`;
}

/** Each stage gets its own copy of them. */
const VARIABLES_LIMIT = 256;

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** `env` mappings: an empty value names a host's variable. */
export function readEnv(node: TreeNode | null, what: string, problems: Problems): readonly EnvSpec[] {
  const entries = readEntries(node, what, problems);
  const over = entries[VARIABLES_LIMIT];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over[1].keyAt,
      `${what} has ${entries.length} variables; it can have at most ${VARIABLES_LIMIT}`,
      'put large settings into a file that is mounted',
    );
  return entries.slice(0, VARIABLES_LIMIT).flatMap(([name, { keyAt, value }]): EnvSpec[] => {
    if (!VARIABLE.test(name) || name.length > 256) {
      problems.error('spec/bad-name', keyAt, `${what} names the variable ${quote(name)}`, 'use letters, digits and `_`, not a digit first');
      return [];
    }
    if (value.kind === 'scalar' && value.value === null) {
      problems.error('spec/wrong-type', keyAt, `${what} gives the variable ${name} no value`, `write \`${name}: ""\` to take the host's variable of that name`);
      return [];
    }
    const text: Located<string> | null = readText(value, `the variable ${name} in ${what}`, problems, true);
    return text === null ? [] : [{ name, at: keyAt, value: text }];
  });
}
