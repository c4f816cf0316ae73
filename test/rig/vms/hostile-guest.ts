/** Guests that break the protocol: an image of the guest whose /init is a script with the guest's port open. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type CpioEntry, writeCpio } from '../../../guest/image/cpio.ts';
import { writeVsockDoor } from './vsock-door.ts';

export interface HostileGuest {
  readonly name: string;
  /** The script that runs with the port open as descriptor 3. */
  readonly script: string;
  readonly code: 'vm/protocol' | 'vm/boot-timeout';
  /** The guest never says hello, so its launch takes the whole limit of a boot. */
  readonly isSilent?: true;
}

const HELLO = String.raw`printf '\063\000\000\000\040{"protocol":1,"agent":"hostile","bootMs":1}        ' >&3`;

/** A session that is set up correctly; afterwards the guest is silent. */
const READY = [
  HELLO,
  String.raw`head -c 42 <&3 >/dev/null; printf '\005\000\000\000\004\001\000\000\000\001' >&3`,
  String.raw`head -c 5 <&3 >/dev/null; printf '\006\000\000\000\057\000\000\000\000{}' >&3`,
].join('; ');
export const SILENT_AFTER_START = `${READY}; sleep 1000`;
/** The kernel panics as soon as the host asks a guest that is ready for anything. */
export const PANIC_AT_FIRST_REQUEST = `${READY}; head -c 1 <&3 >/dev/null; echo c > /proc/sysrq-trigger; sleep 1000`;

export const HOSTILE_GUESTS: readonly HostileGuest[] = [
  { name: 'says nothing', script: 'sleep 1000', code: 'vm/boot-timeout', isSilent: true },
  { name: 'dies at once', script: 'exit 1', code: 'vm/boot-timeout' },
  { name: 'sends garbage', script: 'cat /dev/urandom >&3', code: 'vm/protocol' },
  {
    name: 'announces 4 GiB',
    script: String.raw`printf '\377\377\377\377\040' >&3; sleep 1000`,
    code: 'vm/protocol',
  },
  { name: 'floods after its hello', script: `${HELLO}; cat /dev/zero >&3`, code: 'vm/protocol' },
];

/** Opens the port of QEMU's guests, and runs the script. */
const BY_SERIAL_PORT = `for try in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/vport0p1 ] || sleep 0.2; done
exec 3<>/dev/vport0p1
. /hostile
`;
const BY_VSOCK = 'exec /door\n';

/**
 * Makes the guest image with another /init after it, because a kernel unpacks archives one after the other. Returns the
 * path of the image.
 */
export async function makeHostileImage(
  folder: string,
  image: string,
  guest: Pick<HostileGuest, 'name' | 'script'>,
  port: 'serial' | 'vsock' = 'serial',
): Promise<string> {
  const init = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mkdir -p /proc /sys && mount -t proc proc /proc && mount -t sysfs sys /sys
for module in $(cat /lib/modules/voidbox.order); do insmod /lib/modules/$module 2>/dev/null; done
${port === 'serial' ? BY_SERIAL_PORT : BY_VSOCK}`;
  const file = (path: string, mode: number, content: string | Buffer): CpioEntry => ({
    kind: 'file',
    path,
    mode,
    content: Buffer.from(content),
  });
  const path = join(folder, `${guest.name.replaceAll(' ', '-')}.cpio.gz`);
  const over = writeCpio([
    file('init', 0o755, init),
    file('hostile', 0o644, `export PATH=/bin\n${guest.script}\n`),
    ...(port === 'serial' ? [] : [file('door', 0o755, writeVsockDoor(['/bin/busybox', 'sh', '/hostile']))]),
  ]);
  await writeFile(path, Buffer.concat([await readFile(image), gzipSync(over)]), { mode: 0o644 });
  return path;
}
