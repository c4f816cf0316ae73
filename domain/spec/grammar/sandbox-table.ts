import { SANDBOX_DEFAULTS } from '../../plan/defaults.ts';
import { ISOLATION_LEVELS, MOUNT_MODES, PLAN_LIMITS, SANDBOX_MODES } from '../../plan/plan.ts';
import type { MappingTable } from './table.ts';
import { RANGES } from './values.ts';

/** What a mount is where its `mode` is left out. */
export const MOUNT_MODE_DEFAULT = 'ro';

const OWN_IMAGE = 'take it out: VMs run the guest image that Voidbox brings';

export const MOUNT = {
  form: (text) => {
    // The short form that container tools have.
    const [host = '', guest = '/workspace/data', mode] = text.split(':');
    return `{ host: ${host}, guest: ${guest}${mode === undefined ? '' : `, mode: ${mode}`} }`;
  },
  keys: {
    host: {
      as: 'hostPath',
      type: { is: 'text', holds: 'path', plain: true },
      required: true,
      doc: "A folder of the host: absolute, or relative to the spec's folder. `~` is not expanded.",
      example: './data',
    },
    guest: {
      as: 'guestPath',
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      required: true,
      doc: "Where it lies in the guest, outside of the guest's system folders.",
      example: '/data',
    },
    mode: {
      as: 'mode',
      type: { is: 'word', words: MOUNT_MODES },
      default: MOUNT_MODE_DEFAULT,
      doc: '`ro` shows the folder as it is; `rw` is a copy, whose changes go back after each stage that succeeds.',
      example: 'rw',
    },
  },
} as const satisfies MappingTable;

export const SANDBOX = {
  keys: {
    mode: {
      as: 'mode',
      type: { is: 'word', words: SANDBOX_MODES, aliases: { local: 'auto' } },
      default: SANDBOX_DEFAULTS.mode,
      doc: '`auto` (also `local`) takes the best real backend. `mock` runs nothing for real, and nothing but this word chooses it.',
      example: 'qemu',
    },
    isolation: {
      as: 'isolation',
      type: { is: 'word', words: ISOLATION_LEVELS },
      default: SANDBOX_DEFAULTS.isolation,
      doc: 'The weakest that is accepted; a host that cannot give it fails the run. `none` with `mode: mock`.',
      example: 'process',
    },
    network: {
      as: 'network',
      type: {
        is: 'flag',
        refused: {
          code: 'spec/no-network',
          message: 'asks for network; guests get none until there is an egress policy',
          remedy: 'take `network: true` out; bring data in with `mounts` or `inputs`',
        },
      },
      default: false,
      doc: '`true` is refused until there is an egress policy.',
      example: false,
    },
    memory_mb: {
      as: 'memoryMib',
      type: { is: 'number', range: RANGES.memoryMib },
      default: SANDBOX_DEFAULTS.memoryMib,
      doc: 'Memory of the VM.',
      example: 1024,
    },
    vcpus: {
      as: 'vcpus',
      type: { is: 'number', range: RANGES.vcpus },
      default: SANDBOX_DEFAULTS.vcpus,
      doc: 'Processors of the VM.',
      example: 2,
    },
    disk_mb: {
      as: 'diskMib',
      type: { is: 'number', range: RANGES.diskMib },
      default: SANDBOX_DEFAULTS.diskMib,
      doc: 'For `/workspace`, `/tmp` and home together. Only what is written takes space.',
      example: 4096,
    },
    env: {
      as: 'env',
      type: { is: 'variables' },
      doc: 'Variables of all commands in the VM. See [Variables](#variables).',
      example: { LANG: 'C.UTF-8' },
    },
    mounts: {
      as: 'mounts',
      type: { is: 'list', of: { is: 'mapping', table: MOUNT }, item: 'a mount', most: PLAN_LIMITS.mountsPerScope },
      doc: 'Folders of the host. See [Mounts](#mounts).',
      example: [{ host: './data', guest: '/data' }],
    },
  },
  unsupported: {
    image: { severity: 'error', message: 'not supported yet: `image` of a sandbox', remedy: OWN_IMAGE },
    guest_image: { severity: 'error', message: 'not supported yet: `guest_image` of a sandbox', remedy: OWN_IMAGE },
    kernel: { severity: 'error', message: 'not supported yet: `kernel` of a sandbox', remedy: OWN_IMAGE },
    initramfs: { severity: 'error', message: 'not supported yet: `initramfs` of a sandbox', remedy: OWN_IMAGE },
    snapshot: {
      severity: 'error',
      message: 'not supported yet: `snapshot` of a sandbox',
      remedy: 'take it out: each VM boots fresh',
    },
  },
} as const satisfies MappingTable;
