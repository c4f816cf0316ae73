import { CLI_NEEDS } from '../../agent/agent-cli.ts';
import { SANDBOX_DEFAULTS } from '../../plan/defaults.ts';
import { ISOLATION_LEVELS, MOUNT_GIT, MOUNT_MODES, PLAN_LIMITS, RETENTION, SANDBOX_MODES } from '../../plan/plan.ts';
import { EGRESS_LIMITS } from '../../plan/egress.ts';
import type { MappingTable } from './table.ts';
import { RANGES, SCALES } from './values.ts';

export const KEEP_WORDS = ['never', 'on-failure'] as const;

export const EGRESS_WORDS = ['none', 'open'] as const;

const RULE = {
  is: 'text',
  holds: 'host, network or preset',
  plain: true,
  filled: 'name a host, or remove it',
} as const;

/** Network rules of a VM that may reach some destinations. */
export const EGRESS = {
  keys: {
    allow: {
      as: 'allow',
      type: {
        is: 'list',
        of: RULE,
        item: 'entry # of `allow`',
        items: 'texts',
        most: EGRESS_LIMITS.rules,
      },
      doc: 'Hosts (`example.com`, `*.example.com:8443`), networks (`198.41.0.0/16`), and presets: `provider`, `npm`, `pypi`, `debian`, `github`.',
      example: ['npm', '*.example.com', 'example.com:8443'],
    },
    deny: {
      as: 'deny',
      type: {
        is: 'list',
        of: RULE,
        item: 'entry # of `deny`',
        items: 'texts',
        most: EGRESS_LIMITS.rules,
      },
      doc: 'Takes precedence over `allow`.',
      example: ['ads.example.com'],
    },
  },
} as const satisfies MappingTable;

/** The mode of a mount without `mode`. */
export const MOUNT_MODE_DEFAULT = 'ro';

export const MOUNT = {
  form: (text) => {
    // The short form of container tools.
    const [host = '', guest = '/workspace/data', mode] = text.split(':');
    return `{ host: ${host}, guest: ${guest}${mode === undefined ? '' : `, mode: ${mode}`} }`;
  },
  keys: {
    host: {
      as: 'hostPath',
      mistaken: ['source', 'src', 'host_path', 'from'],
      type: { is: 'text', holds: 'path', plain: true },
      required: true,
      doc: "A folder of the host, from the spec's folder. `~` is not expanded.",
      example: './data',
    },
    guest: {
      as: 'guestPath',
      mistaken: ['target', 'destination', 'dest', 'dst', 'guest_path', 'to'],
      type: { is: 'text', holds: 'absolute path', plain: true, absolute: true },
      required: true,
      doc: 'The path in the guest.',
      example: '/data',
    },
    mode: {
      as: 'mode',
      type: { is: 'word', words: MOUNT_MODES },
      mistaken: ['access', 'read_only', 'readonly', 'writable', 'rw'],
      form: 'mode: ro` or `mode: rw',
      default: MOUNT_MODE_DEFAULT,
      doc: '`ro`: a live view. `rw`: a copy, whose changes come back after each successful stage.',
      example: 'rw',
    },
    git: {
      as: 'git',
      type: { is: 'word', words: MOUNT_GIT },
      mistaken: ['dot_git', 'write_git', 'git_writable'],
      form: 'git: writable',
      default: 'protected',
      doc: '`writable` also copies git repositories back: git on the host can then run programs that the guest chose. See [Mounts](#mounts).',
      example: 'writable',
    },
  },
} as const satisfies MappingTable;

export const SANDBOX = {
  keys: {
    mode: {
      as: 'mode',
      type: { is: 'word', words: SANDBOX_MODES, aliases: { local: 'auto' } },
      default: SANDBOX_DEFAULTS.mode,
      doc: '`auto` (also `local`) takes `vmm` on hardware KVM, otherwise `qemu`. `vmm` needs hardware KVM. `mock`, never automatic, starts no VM.',
      example: 'qemu',
    },
    isolation: {
      as: 'isolation',
      type: { is: 'word', words: ISOLATION_LEVELS },
      default: SANDBOX_DEFAULTS.isolation,
      doc: 'The weakest isolation that you accept; a host without it fails the run. `mode: mock` allows only `none`.',
      example: 'process',
    },
    network: {
      as: 'network',
      type: { is: 'flag' },
      default: false,
      doc: '`true` means `egress: open`.',
      example: false,
    },
    egress: {
      as: 'egress',
      type: { is: 'choice', words: EGRESS_WORDS, table: EGRESS },
      mistaken: ['networking', 'net', 'internet', 'firewall', 'allowlist'],
      excludes: ['network'],
      form: 'egress: { allow: [example.com] }',
      otherwise: '`none`; `{ allow: [provider] }` with agents',
      doc: 'Nothing, the internet, or hosts. See [Network](#network).',
      example: { allow: ['pypi', 'example.com:8443'] },
    },
    services: {
      as: 'services',
      type: { is: 'named-texts', holds: 'host:port', of: 'service', most: EGRESS_LIMITS.services },
      doc: 'Services of the host or its network, by these names. See [Network](#network).',
      example: { db: '127.0.0.1:5432' },
    },
    memory_mb: {
      as: 'memoryMib',
      type: { is: 'number', range: RANGES.memoryMib },
      mistaken: ['memory', 'mem', 'ram', 'memory_mib', 'memory_gb', 'memory_bytes', 'memory_limit'],
      otherwise: `\`${SANDBOX_DEFAULTS.memoryMib}\`; \`${CLI_NEEDS.claude.memoryMib}\` with Claude's command line`,
      doc: 'Memory of the VM.',
      example: 1024,
    },
    vcpus: {
      as: 'vcpus',
      type: { is: 'number', range: RANGES.vcpus },
      mistaken: ['cpu', 'cpus', 'cores', 'vcpu'],
      default: SANDBOX_DEFAULTS.vcpus,
      doc: 'Processors; at most 32 with `vmm`.',
      example: 2,
    },
    disk_mb: {
      as: 'diskMib',
      type: { is: 'number', range: RANGES.diskMib },
      mistaken: ['disk', 'disk_mib', 'disk_gb', 'disk_size', 'storage'],
      default: SANDBOX_DEFAULTS.diskMib,
      doc: 'For `/workspace`, `/tmp` and home together; the host stores only written data.',
      example: 4096,
    },
    env: {
      as: 'env',
      type: { is: 'variables' },
      mistaken: ['environment', 'variables', 'env_vars'],
      doc: 'Variables of all commands in the VM. See [Variables](#variables).',
      example: { LANG: 'C.UTF-8' },
    },
    mounts: {
      as: 'mounts',
      type: { is: 'list', of: { is: 'mapping', table: MOUNT }, item: 'a mount', most: PLAN_LIMITS.mountsPerScope },
      mistaken: ['volumes', 'mount', 'binds'],
      form: 'mounts: [{ host: FOLDER, guest: PATH }]',
      doc: 'Folders of the host. See [Mounts](#mounts).',
      example: [{ host: './data', guest: '/data' }],
    },
    keep: {
      as: 'keep',
      type: { is: 'word', words: KEEP_WORDS },
      mistaken: ['retain', 'keep_on_failure', 'keep_vm', 'preserve', 'cleanup', 'on_failure'],
      form: 'keep: on-failure',
      default: 'never',
      doc: 'Keeps the VM of a failed stage for inspection. See [A look at a failed stage](runs.md#a-look-at-a-failed-stage).',
      example: 'on-failure',
    },
    keep_secs: {
      as: 'keepMs',
      type: { is: 'number', range: RANGES.keepSecs, scale: SCALES.msPerSecond },
      mistaken: ['keep_for', 'keep_seconds', 'keep_ms', 'keep_minutes', 'keep_timeout_secs', 'ttl_secs'],
      otherwise: `\`${RETENTION.defaultMs / 1_000}\` with \`keep: on-failure\``,
      doc: 'For how long.',
      example: 600,
    },
    image: {
      as: 'image',
      type: { is: 'text', holds: 'image', plain: true, filled: 'write base, dev or a path, or remove it' },
      mistaken: ['base_image', 'container'],
      otherwise: '`base`; `dev` with a workspace or Claude Code',
      doc: "`base` (busybox), `dev` (Debian), or a folder, a tar or an OCI layout (`./image`). A registry's name needs `--image NAME=PATH`. See [Images](guest.md#images).",
      example: 'dev',
    },
    guest_image: {
      as: 'guestImage',
      type: { is: 'text', holds: 'image', plain: true },
      doc: "No effect, with a warning: every VM boots Voidbox's own kernel.",
      example: 'ghcr.io/acme/guest:v1',
    },
    kernel: {
      as: 'kernel',
      type: { is: 'text', holds: 'path', plain: true, filled: 'name a file, or remove it' },
      doc: "A kernel, from the spec's folder. `run` refuses it.",
      example: './vmlinuz',
    },
    initramfs: {
      as: 'initramfs',
      type: { is: 'text', holds: 'path', plain: true, filled: 'name a file, or remove it' },
      doc: 'Its initramfs. `run` refuses it.',
      example: './initramfs.cpio.gz',
    },
    snapshot: {
      as: 'snapshot',
      type: { is: 'text', holds: 'text', plain: true, filled: 'name a prepared sandbox, write none, or remove it' },
      mistaken: ['snapshots', 'from_snapshot', 'restore_from'],
      otherwise: 'an empty disk, and a [snapshot](snapshots.md) if its host has one',
      doc: 'The VM starts with the disk of this [prepared sandbox](snapshots.md#checkpoints-and-prepared-sandboxes): its name, or the beginning of its id. `none`: the VM boots, and no snapshot is made of it.',
      example: 'node-deps',
    },
  },
  unsupported: {
    auto_snapshot: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a sandbox has no `auto_snapshot`: its VM starts from a snapshot without a key',
      remedy: 'remove it, or write `snapshot: none` for a VM that boots',
    },
    secrets: {
      severity: 'error',
      code: 'spec/wrong-key',
      message: 'a sandbox has no `secrets`: a secret reaches only the stages that name it',
      remedy: 'write `secrets` at each step or box that needs it',
    },
  },
} as const satisfies MappingTable;

export function isOwnImage(name: string): boolean {
  return name === 'base' || name === 'dev';
}
