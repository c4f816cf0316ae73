/** Arms of VMs with a keeper, as runs have them. */
import { readdirSync, readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import type { LaunchSpec, SandboxBackend } from '../../../activities/ports/sandbox.ts';
import { readRunDir, vmRunDir } from '../../../native/index.ts';
import { type Arm, createArm } from '../../measure.ts';
import { PLAN, runTrue } from '../../vm.ts';

const VMS = 8;
/** The VM of which eight run side by side. */
export const SMALL: LaunchSpec = { ...PLAN, memoryMib: 128, diskMib: 64 };
const never = new AbortController().signal;

/** The time of eight VMs until each has run a command, one after the other or at once. */
export function createManyArm(
  name: string,
  backend: SandboxBackend,
  isAtOnce: boolean,
  start: 'cold' | 'snapshot' = 'cold',
): Arm<'allMs'> {
  return createArm(name, async () => {
    const keys = Array.from({ length: VMS }, () => makeKey());
    const began = performance.now();
    const startOne = async (key: (typeof keys)[number]): Promise<void> => {
      const vm = await backend.launch(key, SMALL, never);
      if (vm.facts.start !== start) throw new Error(`${name}: a ${vm.facts.start} start: ${vm.facts.startNote ?? ''}`);
      await runTrue(vm);
    };
    try {
      if (isAtOnce) await Promise.all(keys.map(startOne));
      else for (const key of keys) await startOne(key);
      return { allMs: performance.now() - began };
    } finally {
      for (const key of keys) await backend.release(key);
    }
  });
}

function makeKey(): Parameters<SandboxBackend['launch']>[0] {
  return { runId: `bench-${randomUUID()}`, scope: 'bench', instance: [], generation: 0 };
}

/** The resident memory of a VM's keeper, its VMM and the jail, without the guest's memory. */
export function createResidentArm(
  name: string,
  backend: SandboxBackend,
  vmsDir: string,
  keeper: string,
): Arm<'besideMib'> {
  return createArm(name, async () => {
    const key = makeKey();
    const vm = await backend.launch(key, PLAN, never);
    try {
      await runTrue(vm);
      const { pid } = await readRunDir(keeper, vmRunDir(vmsDir, key));
      if (pid === null) throw new Error('the VM has no keeper');
      const kib = [pid, ...listBelow(pid)].reduce((sum, each) => sum + readBesideGuestKib(each), 0);
      return { besideMib: kib / 1024 };
    } finally {
      await vm.stop();
      await backend.release(key);
    }
  });
}

function listBelow(root: number): readonly number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'utf8');
      parents.set(Number(entry), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]));
    } catch {
      // It has ended.
    }
  }
  const found: number[] = [];
  for (const queue = [root]; queue.length > 0;) {
    const parent = queue.pop();
    const children = [...parents].filter(([, each]) => each === parent).map(([pid]) => pid);
    found.push(...children);
    queue.push(...children);
  }
  return found;
}

/** @source proc_pid_smaps(5) */
function readBesideGuestKib(pid: number): number {
  let kib = 0;
  let isGuest = false;
  for (const line of readSmaps(pid).split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) /.exec(line);
    if (range !== null) {
      const bytes = Number.parseInt(range[2]!, 16) - Number.parseInt(range[1]!, 16);
      isGuest = bytes >= PLAN.memoryMib * 2 ** 20;
    } else if (!isGuest && line.startsWith('Rss:')) kib += Number(line.split(/\s+/)[1]);
  }
  return kib;
}

/** A process that has ended has no memory. */
function readSmaps(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/smaps`, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return '';
    throw error;
  }
}
