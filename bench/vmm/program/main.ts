/**
 * The program that takes the figures, in the lab or on a host that has KVM: `TASK PORT`. The task is a file of JSON, and
 * results go to the port.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, closeSync, copyFileSync, mkdirSync, openSync, readFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { QemuPieces } from '../../../sandbox/micro-vm/qemu/qemu.ts';
import { createRealHost, type RealHost } from '../../../test/conformance/sandbox/real-host.ts';
import { type Arm, interleave } from '../../measure.ts';
import { coldBootArm, execArm, fileArm, onIdleDisk, warmVm } from '../../vm.ts';
import { ARMS } from '../arms.ts';
import type { BenchLine, BenchTask } from '../task.ts';
import { createBootArm, createFloorBootArm } from './machine-arms.ts';
import { takeCopies } from './copy-arms.ts';
import { createManyArm, createResidentArm } from './vm-arms.ts';

const SNAPSHOTS_MAX_MIB = 512;
/** The lab takes seconds for each MiB. */
const FILE_MIB = 4;

const [taskFile = '', port = ''] = process.argv.slice(2);
const output = openSync(port, 'w');

function writeLine(line: BenchLine): void {
  writeSync(output, `${JSON.stringify(line)}\n`);
}

const print = (text: string): void => writeLine({ kind: 'say', text });

/** Takes arms in turn, after one round of each that does not count: it reads files that the cache lacks. */
async function take(arms: readonly Arm<string>[], rounds: number): Promise<void> {
  for (const arm of arms) {
    await arm.round();
    print(`  ${arm.name}: warm`);
  }
  for (const result of await interleave(arms, rounds, print)) writeLine({ kind: 'result', result });
}

/** Copies what is measured to this machine's own memory: reads of the lab's share are slow. */
function copyHere(path: string, folder: string): string {
  const into = join(folder, basename(dirname(path)));
  mkdirSync(into, { recursive: true });
  const copy = join(into, basename(path));
  copyFileSync(path, copy);
  return copy;
}

function copyPieces(pieces: QemuPieces, folder: string): QemuPieces {
  const { path, uncompressedPath, kind } = pieces.kernel;
  const unpacked = uncompressedPath === undefined ? {} : { uncompressedPath: copyHere(uncompressedPath, folder) };
  return {
    ...pieces,
    keeper: copyHere(pieces.keeper, folder),
    initramfs: copyHere(pieces.initramfs, folder),
    kernel: { path: copyHere(path, folder), kind, ...unpacked },
  };
}

function copyTask(task: BenchTask): BenchTask {
  const folder = join(tmpdir(), 'measured');
  const { machine, vmm, own } = task;
  copyHere(join(dirname(vmm), 'voidbox-folders'), folder);
  const programs = {
    measure: copyHere(machine.measure, folder),
    floor: copyHere(machine.floor, folder),
    hold: copyHere(machine.hold, folder),
  };
  for (const path of Object.values(programs)) chmodSync(path, 0o755);
  return {
    ...task,
    pieces: copyPieces(task.pieces, folder),
    own: own === null ? null : copyPieces(own, folder),
    vmm: copyHere(vmm, folder),
    machine: { ...machine, ...programs, kernel: { ...machine.kernel, path: copyHere(machine.kernel.path, folder) } },
  };
}

type HostOptions = NonNullable<Parameters<typeof createRealHost>[1]>;

async function useHost<T>(pieces: QemuPieces, options: HostOptions, use: (host: RealHost) => Promise<T>): Promise<T> {
  const host = await createRealHost(pieces, options);
  try {
    return await use(host);
  } finally {
    await host.dispose();
  }
}

async function takeMachineFigures(task: BenchTask): Promise<void> {
  await take([createFloorBootArm(ARMS.floorBoot, task), createBootArm(ARMS.vmmBoot, task)], task.rounds);
}

async function takeFirstCommands(task: BenchTask): Promise<void> {
  const { pieces, own, vmm, bootTimeoutMs, rounds } = task;
  const snapshots = { dir: join(tmpdir(), 'snapshots'), maxMib: SNAPSHOTS_MAX_MIB };
  const hosts = [
    { name: ARMS.qemuCold, pieces, options: { snapshots: 'off' } },
    { name: ARMS.qemuSnapshot, pieces, options: { snapshots } },
    { name: ARMS.vmmDebian, pieces, options: { vmm, snapshots: 'off' } },
    ...(own === null
      ? []
      : ([
          { name: ARMS.qemuOwn, pieces: own, options: { snapshots: 'off' } },
          { name: ARMS.qemuOwnSnapshot, pieces: own, options: { snapshots } },
          { name: ARMS.vmmOwn, pieces: own, options: { vmm, snapshots: 'off' } },
        ] as const)),
  ] as const;
  const opened = await Promise.all(
    hosts.map(async ({ name, pieces: of, options }) => ({
      name,
      host: await createRealHost(of, { bootTimeoutMs, ...options }),
    })),
  );
  try {
    await take(
      opened.map(({ name, host }) => coldBootArm(name, host.backend)),
      rounds,
    );
  } finally {
    for (const { host } of opened) await host.dispose();
  }
}

async function takeWarmFigures(task: BenchTask): Promise<void> {
  const { pieces, vmm, bootTimeoutMs, rounds } = task;
  await useHost(pieces, { bootTimeoutMs, snapshots: 'off' }, (qemu) =>
    useHost(pieces, { bootTimeoutMs, snapshots: 'off', vmm }, async (native) => {
      {
        await using ofQemu = await warmVm(qemu.backend);
        await using ofVmm = await warmVm(native.backend);
        await take([execArm(ARMS.qemuExec, ofQemu.vm), execArm(ARMS.vmmExec, ofVmm.vm)], rounds);
        await take(
          [
            onIdleDisk(ofQemu.vm, fileArm(ARMS.qemuFile, ofQemu.vm, FILE_MIB)),
            onIdleDisk(ofVmm.vm, fileArm(ARMS.vmmFile, ofVmm.vm, FILE_MIB)),
          ],
          rounds,
        );
      }
      await take([createResidentArm(ARMS.vmmResident, native.backend, native.vmsDir, pieces.keeper)], 3);
    }),
  );
}

/** Runs `use` while KVM keeps its code. */
async function holdKvm(program: string, use: () => Promise<void>): Promise<void> {
  const holder = spawn(program, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(holder.stdout, 'data');
    await use();
  } finally {
    holder.kill('SIGKILL');
  }
}

async function takeSideBySide(task: BenchTask): Promise<void> {
  const { own, pieces, vmm, bootTimeoutMs, rounds } = task;
  await useHost(own ?? pieces, { bootTimeoutMs, snapshots: 'off', vmm }, ({ backend }) =>
    take([createManyArm(ARMS.oneByOne, backend, false), createManyArm(ARMS.atOnce, backend, true)], rounds),
  );
}

async function takeAll(): Promise<void> {
  const task = copyTask(JSON.parse(readFileSync(taskFile, 'utf8')) as BenchTask);
  switch (task.part) {
    case 'start':
      return await takeMachineFigures(task);
    case 'first-command':
      return await takeFirstCommands(task);
    case 'warm':
      return await takeWarmFigures(task);
    case 'snapshots':
      return await takeCopies(task, take);
    case 'two-cpus':
      return await holdKvm(task.machine.hold, () => takeSideBySide(task));
  }
}

try {
  await takeAll();
} catch (error) {
  print(error instanceof Error ? error.stack! : String(error));
  process.exitCode = 1;
}
closeSync(output);
