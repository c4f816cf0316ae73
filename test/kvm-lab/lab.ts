/**
 * The KVM lab: a machine that QEMU emulates, with a CPU that has virtualization, and Debian's kernel as its host. In it the
 * real /dev/kvm runs guests, on any x86-64 machine. It sees this machine's files read-only.
 */
import { type ChildProcessByStdio, execFile, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { promisify } from 'node:util';
import { type FirstRootInputs, ROOT_TAG, writeFirstRoot } from './first-root.ts';
import type { Attempt } from './run-rows.ts';

export interface LabPieces {
  readonly qemu: string;
  /** The `voidbox-vm` binary, which ends the lab with this process. */
  readonly keeper: string;
  readonly kernel: string;
  readonly busybox: string;
  readonly modules: FirstRootInputs['modules'];
}

export interface LabProgram extends Pick<FirstRootInputs, 'files' | 'command' | 'variables'> {
  /** Absent: the machine of the tests. */
  readonly machine?: LabMachine;
}

export interface LabMachine {
  /** With two CPUs, some labs hang on a busy machine. */
  readonly cpus: number;
  readonly memoryMib: number;
}

/** The memory is enough for two VMs of the conformance table with their VMMs, and for what the lab writes. */
const MACHINE_OF_TESTS: LabMachine = { cpus: 1, memoryMib: 2048 };
/**
 * The emulation of SVM in QEMU 7.2 sometimes forgets that an interrupt waits: its thread changes the flags of waiting
 * interrupts without the lock of the devices. If that interrupt was the timer's, the machine stands still until another
 * device interrupts it. A byte to its second serial port does so.
 */
const PULSE_MS = 1_000;
/** The end of the console in messages. */
const CONSOLE_TAIL_CHARACTERS = 3_000;

/** Boots the lab, and starts the program in it. The lines are those that the program writes to `ROWS_PORT`. */
export async function startLab(pieces: LabPieces, program: LabProgram): Promise<Attempt> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-lab-'));
  const files = { root: join(folder, 'root.cpio'), console: join(folder, 'console.log') };
  await writeFile(files.root, writeFirstRoot({ ...pieces, ...program, busybox: await readFile(pieces.busybox) }));
  await writeFile(files.console, '');
  const words = labArguments(pieces.kernel, files, await measureTscKhz(pieces.keeper), program.machine);
  const child = spawn(pieces.keeper, ['tie', '--', pieces.qemu, ...words], { stdio: ['pipe', 'pipe', 'pipe'] });
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  sendPulse(child, closed);
  let complaints = '';
  child.stderr.on('data', (chunk: Buffer) => {
    complaints = (complaints + chunk.toString()).slice(-CONSOLE_TAIL_CHARACTERS);
  });
  let console = '';
  const endOnce = async (): Promise<void> => {
    child.kill('SIGKILL');
    await closed;
    console = readConsole(files.console);
    await rm(folder, { recursive: true, force: true });
  };
  let ending: Promise<void> | null = null;
  return {
    lines: createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY }),
    describe: () => `The lab's console ends with:\n${console}\n${complaints}`,
    end: () => (ending ??= endOnce()),
  };
}

/** Begins at the first line: the port then echoes nothing, and no VM has run before. */
function sendPulse({ stdin, stdout }: ChildProcessByStdio<Writable, Readable, Readable>, closed: Promise<void>): void {
  // A machine that has ended reads nothing.
  stdin.on('error', () => undefined);
  stdout.once('data', () => {
    const pulse = setInterval(() => stdin.write('\n'), PULSE_MS);
    void closed.then(() => clearInterval(pulse));
  });
}

function readConsole(path: string): string {
  try {
    return readFileSync(path, 'utf8').slice(-CONSOLE_TAIL_CHARACTERS);
  } catch {
    return '(nothing)';
  }
}

async function measureTscKhz(keeper: string): Promise<number> {
  const { stdout } = await promisify(execFile)(keeper, ['host', '--tsc']);
  const { tscKhz } = JSON.parse(stdout) as { readonly tscKhz?: unknown };
  if (typeof tscKhz !== 'number') throw new Error(`${keeper} host gives no tscKhz: ${stdout.slice(0, 200)}`);
  return tscKhz;
}

/** Returns the arguments of QEMU; the second serial port is its standard output. */
export function labArguments(
  kernel: string,
  files: { readonly root: string; readonly console: string },
  tscKhz: number,
  { cpus, memoryMib }: LabMachine = MACHINE_OF_TESTS,
): string[] {
  const machine = '-machine q35 -accel tcg,thread=multi -cpu EPYC,+svm,+npt';
  const bare = '-nodefaults -no-user-config -no-reboot -display none -device virtio-rng-pci';
  const share = 'local,id=root,path=/,security_model=none,readonly=on,multidevs=remap';
  return [
    ...`${machine} -smp ${cpus} -m ${memoryMib} ${bare}`.split(' '),
    '-kernel',
    kernel,
    '-initrd',
    files.root,
    '-append',
    // Without `tsc=reliable` the lab's kernel gives its guests no clock that works. On a busy machine its check of the
    // timer can fail, and it panics; its calibration of the TSC can be wrong, and its time then runs several times as
    // fast, so every limit of time in the lab is too short.
    `console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off tsc=reliable no_timer_check tsc_early_khz=${tscKhz}`,
    '-chardev',
    `file,id=console,path=${files.console}`,
    ...'-chardev stdio,id=rows,signal=off'.split(' '),
    ...`-serial chardev:console -serial chardev:rows -fsdev ${share}`.split(' '),
    ...`-device virtio-9p-pci,fsdev=root,mount_tag=${ROOT_TAG}`.split(' '),
  ];
}
