/**
 * Builds a guest's first root: the agent as /init, the mock agent, busybox with its applets, users, mount points,
 * modules.
 */
import { gzipSync } from 'node:zlib';
import { type CpioEntry, writeCpio } from './cpio.ts';

export interface InitramfsInputs {
  /** The `voidbox-agent` binary, static. */
  readonly agent: Uint8Array;
  /** The `voidbox-mock-agent` binary, static. */
  readonly mockAgent: Uint8Array;
  /** A static busybox. */
  readonly busybox: Uint8Array;
  /** The output of `busybox --list-full`: paths such as `bin/ls`. */
  readonly applets: readonly string[];
  /**
   * Uncompressed kernel modules in the order in which the agent loads them; empty if the kernel has all of them built
   * in.
   */
  readonly modules: readonly KernelModule[];
}

export interface KernelModule {
  /** File name, such as `virtio_blk.ko`. */
  readonly name: string;
  /** The kind of virtio device without which the agent does not load it; null: the agent loads it in each guest. */
  readonly device: number | null;
  readonly content: Uint8Array;
}

/** Part of the cache key. It must grow whenever the same inputs produce another image. */
export const INITRAMFS_FORMAT = 3;

const READ_ONLY_FOLDERS = [
  'bin',
  'dev',
  'etc',
  'home',
  'lib',
  'lib/modules',
  'mnt',
  'opt',
  'proc',
  'run',
  'sbin',
  'sys',
  'usr',
  'usr/bin',
  'usr/lib',
  'usr/lib/voidbox',
  'usr/lib/voidbox/mock-agents',
  'usr/sbin',
  'var',
];
/** Mount points of the scratch disk's folders. */
const SCRATCH_FOLDERS = ['home/sandbox', 'tmp', 'var/tmp', 'workspace'];
const MOCK_AGENT = 'usr/lib/voidbox/mock-agent';
/** The command lines that the mock agent replaces. */
const MOCKED = ['claude', 'codex'];
const PRIVATE_FOLDERS = ['root'];

const TEXT_FILES: Readonly<Record<string, string>> = {
  'etc/passwd': [
    'root:x:0:0:root:/root:/bin/sh',
    'sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh',
    'nobody:x:65534:65534:nobody:/:/bin/false',
    '',
  ].join('\n'),
  'etc/group': ['root:x:0:', 'sandbox:x:1000:', 'nogroup:x:65534:', ''].join('\n'),
  'etc/hosts': '127.0.0.1 localhost voidbox\n',
  'etc/hostname': 'voidbox\n',
  'etc/os-release': 'ID=voidbox\nNAME="Voidbox guest"\nPRETTY_NAME="Voidbox guest"\n',
  'etc/shells': '/bin/sh\n',
};

/** The image as a gzipped cpio archive; equal inputs give equal bytes. */
export function buildInitramfs(inputs: InitramfsInputs): Buffer {
  return gzipSync(writeCpio(initramfsEntries(inputs)), { level: 1 });
}

export function initramfsEntries(inputs: InitramfsInputs): CpioEntry[] {
  const entries: CpioEntry[] = [
    ...READ_ONLY_FOLDERS.map((path) => ({ kind: 'folder' as const, path, mode: 0o755 })),
    ...SCRATCH_FOLDERS.map((path) => ({ kind: 'folder' as const, path, mode: 0o755 })),
    ...PRIVATE_FOLDERS.map((path) => ({ kind: 'folder' as const, path, mode: 0o700 })),
    ...Object.entries(TEXT_FILES).map(([path, text]) => ({
      kind: 'file' as const,
      path,
      mode: 0o644,
      content: Buffer.from(text),
    })),
    { kind: 'file', path: 'init', mode: 0o755, content: inputs.agent },
    { kind: 'file', path: 'bin/busybox', mode: 0o755, content: inputs.busybox },
    { kind: 'file', path: MOCK_AGENT, mode: 0o755, content: inputs.mockAgent },
    // The mock agent learns from its name which command line it replaces.
    ...MOCKED.map((name) => ({
      kind: 'link' as const,
      path: `usr/lib/voidbox/mock-agents/${name}`,
      target: `/${MOCK_AGENT}`,
    })),
    ...appletLinks(inputs.applets),
  ];
  if (inputs.modules.length > 0) {
    for (const module of inputs.modules)
      entries.push({ kind: 'file', path: `lib/modules/${module.name}`, mode: 0o644, content: module.content });
    const order = inputs.modules.map((module) => `${formatModuleLine(module)}\n`).join('');
    entries.push({ kind: 'file', path: 'lib/modules/voidbox.order', mode: 0o644, content: Buffer.from(order) });
  }
  return entries;
}

/** Returns a module's line in the list that the agent reads (docs/reference/guest.md). */
export function formatModuleLine({ name, device }: Pick<KernelModule, 'name' | 'device'>): string {
  return device === null ? name : `${name} virtio=${device}`;
}

/** Reads a line of {@link formatModuleLine}. */
export function parseModuleLine(line: string): Pick<KernelModule, 'name' | 'device'> {
  const [name = '', device] = line.split(' virtio=');
  return { name, device: device === undefined ? null : Number(device) };
}

/**
 * Links in /bin, /sbin, /usr/bin and /usr/sbin. `init` of busybox is left out, because the agent is the first process.
 */
function appletLinks(applets: readonly string[]): CpioEntry[] {
  const paths = new Set(
    applets.filter((path) => /^(?:usr\/)?s?bin\/[^/]+$/.test(path) && path !== 'bin/busybox' && path !== 'sbin/init'),
  );
  // Scripts expect these programs at the usual paths of distributions.
  for (const path of ['usr/bin/env', 'bin/sh']) paths.add(path);
  return [...paths].map((path) => ({ kind: 'link' as const, path, target: '/bin/busybox' }));
}
