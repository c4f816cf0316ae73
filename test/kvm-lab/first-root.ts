/** The first root of the lab: it loads the modules, finds the files of this machine, and starts the program there. */
import { basename } from 'node:path';
import { type CpioEntry, writeCpio } from '../../guest/image/cpio.ts';

export interface FirstRootInputs {
  /** A static busybox. */
  readonly busybox: Uint8Array;
  /** Uncompressed modules in the order of loading. */
  readonly modules: readonly { readonly name: string; readonly content: Uint8Array }[];
  /** Files that the program finds in `LAB_FOLDER`. */
  readonly files: Readonly<Record<string, Uint8Array | string>>;
  /** The program's command line; its paths are on this machine or in `LAB_FOLDER`. */
  readonly command: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
}

/** All that the lab can write, in memory. */
export const LAB_FOLDER = '/run/voidbox-lab';
/** The 9p device with this machine's files. */
export const ROOT_TAG = 'root';
/** The serial port for lines about rows. */
export const ROWS_PORT = '/dev/ttyS1';

/** The keeper gives a VMM the group of /dev/kvm. No file of a machine has this one. */
const KVM_GROUP = 1_899_999_999;

/**
 * The program runs on this machine's files, which are read-only, so it finds Node, QEMU and their libraries. They are the
 * root by `switch_root`, because in a chroot there are no user namespaces. /dev/kvm has the mode that udev gives it.
 */
const INIT = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs dev /dev
while read -r module; do $b insmod "/modules/$module" || echo "lab: module $module cannot be loaded"; done < /modules/order
$b stty -F ${ROWS_PORT} raw -echo
$b ip link set lo up
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose ${ROOT_TAG} /host || exec $b poweroff -f
$b chown 0:${KVM_GROUP} /dev/kvm
$b chmod 0660 /dev/kvm
for folder in proc sys dev; do $b mount --move /$folder /host/$folder; done
$b mkdir -p /host/dev/shm /host/dev/pts
$b mount -t tmpfs -o mode=1777 shm /host/dev/shm
$b mount -t devpts pts /host/dev/pts
# A keeper makes a snapshot only on a disk with 1.25 GiB free. The size is a limit, and takes no memory.
$b mount -t tmpfs -o mode=0755,size=4g run /host/run
$b mkdir /host${LAB_FOLDER} /host${LAB_FOLDER}/tmp
$b cp -r /lab/. /bin/busybox /host${LAB_FOLDER}/
exec $b switch_root /host ${LAB_FOLDER}/busybox sh ${LAB_FOLDER}/start
`;

/** The shell is PID 1: it reaps what the program leaves. The machine that booted the lab ends it after the last line. */
function startScript(command: readonly string[], variables: FirstRootInputs['variables']): string {
  const set = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(value)}\n`);
  return [
    ...set,
    `cd ${LAB_FOLDER}\n`,
    `${command.map(quote).join(' ')} </dev/null\n`,
    `echo "{\\"kind\\":\\"exit\\",\\"code\\":$?}" > ${ROWS_PORT}\n`,
    `exec ${LAB_FOLDER}/busybox sleep 3600\n`,
  ].join('');
}

function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Writes the archive; it is not compressed, because the lab's emulated CPU would unpack it. */
export function writeFirstRoot({ busybox, modules, files, command, variables }: FirstRootInputs): Buffer {
  const folders = ['bin', 'dev', 'host', 'lab', 'modules', 'proc', 'sys'];
  const file = (path: string, mode: number, content: Uint8Array | string): CpioEntry => ({
    kind: 'file',
    path,
    mode,
    content: Buffer.from(content),
  });
  return writeCpio([
    ...folders.map((path): CpioEntry => ({ kind: 'folder', path, mode: 0o755 })),
    file('init', 0o755, INIT),
    file('bin/busybox', 0o755, busybox),
    ...modules.map(({ name, content }) => file(`modules/${basename(name)}`, 0o644, content)),
    file('modules/order', 0o644, modules.map(({ name }) => `${basename(name)}\n`).join('')),
    file('lab/start', 0o644, startScript(command, variables)),
    ...Object.entries(files).map(([name, content]) => file(`lab/${basename(name)}`, 0o644, content)),
  ]);
}
