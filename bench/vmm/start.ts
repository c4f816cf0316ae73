/** Starts the program that measures, in the lab or on this host, and collects its results. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { rolldown } from 'rolldown';
import { LAB_FOLDER, ROWS_PORT } from '../../test/kvm-lab/first-root.ts';
import { startLab } from '../../test/kvm-lab/lab.ts';
import type { Attempt } from '../../test/kvm-lab/run-rows.ts';
import type { KvmPlace } from '../../test/kvm-lab/start-on-kvm.ts';
import type { ArmResult } from '../measure.ts';
import { type BenchTask, parseBenchLine, type Results } from './task.ts';

/** Room for eight small VMs, and for copies of what is measured. */
const LAB_MEMORY_MIB = 3072;
/** The longest time without a line; a VM of QEMU may boot for a minute. */
const SILENCE_MS = 240_000;

/** The task without the initramfs, which the bench makes. */
export type PartTask = Omit<BenchTask, 'machine'> & { readonly machine: Omit<BenchTask['machine'], 'initramfs'> };

/**
 * Runs one part. A lab that stands still is started once more; `say` tells so.
 * @throws Error if the program fails, with the end of its console
 */
export async function takePart(
  place: KvmPlace,
  task: PartTask,
  initramfs: Buffer,
  say: (line: string) => void,
): Promise<Results> {
  const program = await bundleProgram();
  for (let isLast = false; ; isLast = true) {
    const attempt = await start(place, task, initramfs, program);
    const results = new Map<string, ArmResult<string>>();
    try {
      await follow(attempt, results, say);
      return results;
    } catch (error) {
      // The console is complete when the machine has ended.
      await attempt.end();
      const problem = `${error instanceof Error ? error.message : String(error)}\n${attempt.describe()}`;
      if (isLast || place.kind === 'host') throw new Error(problem, { cause: error });
      say(`${problem}\nOne retry of this part.`);
    } finally {
      await attempt.end();
    }
  }
}

async function follow(
  attempt: Attempt,
  results: Map<string, ArmResult<string>>,
  say: (line: string) => void,
): Promise<void> {
  const fail = (why: string): Error => new Error(`The bench ended early: ${why}.`);
  let isSilent = false;
  const onSilence = (): void => {
    isSilent = true;
    void attempt.end();
  };
  let timer = setTimeout(onSilence, SILENCE_MS);
  try {
    for await (const text of attempt.lines) {
      clearTimeout(timer);
      timer = setTimeout(onSilence, SILENCE_MS);
      const line = parseBenchLine(text);
      if (line.kind === 'say') say(line.text);
      else if (line.kind === 'result') results.set(line.result.name, line.result);
      else if (line.code === 0) return;
      else throw fail(`its program ended with ${line.code}`);
    }
  } finally {
    clearTimeout(timer);
  }
  throw fail(isSilent ? `it wrote nothing for ${SILENCE_MS / 1000} s` : 'its machine ended');
}

async function bundleProgram(): Promise<string> {
  const input = join(import.meta.dirname, 'program', 'main.js');
  const build = await rolldown({ input, platform: 'node', logLevel: 'silent' });
  try {
    const { output } = await build.generate({ format: 'esm', codeSplitting: false });
    return output[0].code;
  } finally {
    await build.close();
  }
}

function fillTask({ machine, ...task }: PartTask, initramfs: string): BenchTask {
  return { ...task, machine: { ...machine, initramfs } };
}

async function start(place: KvmPlace, task: PartTask, initramfs: Buffer, program: string): Promise<Attempt> {
  if (place.kind === 'host') return await startHere(task, initramfs, program);
  const locate = (name: string): string => join(LAB_FOLDER, name);
  const text = JSON.stringify(fillTask(task, locate('init.cpio')));
  const path = `${dirname(process.execPath)}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
  return await startLab(place.pieces, {
    files: { 'program.mjs': program, 'task.json': text, 'init.cpio': initramfs },
    command: [process.execPath, locate('program.mjs'), locate('task.json'), ROWS_PORT],
    variables: { PATH: path, HOME: LAB_FOLDER, TMPDIR: locate('tmp'), LC_ALL: 'C.UTF-8' },
    machine: { cpus: task.part === 'two-cpus' ? 2 : 1, memoryMib: LAB_MEMORY_MIB },
  });
}

async function startHere(task: PartTask, initramfs: Buffer, program: string): Promise<Attempt> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-bench-vmm-'));
  const locate = (name: string): string => join(folder, name);
  await writeFile(locate('program.mjs'), program);
  await writeFile(locate('task.json'), JSON.stringify(fillTask(task, locate('init.cpio'))));
  await writeFile(locate('init.cpio'), initramfs);
  const child = spawn(
    'sh',
    [
      '-c',
      `"$0" "$1" "$2" /dev/fd/3; echo "{\\"kind\\":\\"exit\\",\\"code\\":$?}" >&3`,
      process.execPath,
      locate('program.mjs'),
      locate('task.json'),
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] },
  );
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  return {
    lines: createInterface({ input: child.stdio[3] as NodeJS.ReadableStream }),
    describe: () => 'Its output is above.',
    end: async () => {
      child.kill('SIGKILL');
      await closed;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
