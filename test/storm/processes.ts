/** Which processes a storm can hit, and which must be gone after it. */
import { readFileSync } from 'node:fs';
import { isAlive, type Rig, type RunningCli } from '../e2e/rig.ts';
import type { Target } from './strikes.ts';

/** The unit of times in /proc, on every Linux. */
const TICKS_PER_SECOND = 100;

/** The living processes of each kind, as they are now. */
export function targetsOf(rig: Rig, clis: readonly RunningCli[]): Readonly<Record<Target, readonly number[]>> {
  const stack = rig.stack();
  // `stack.json` may name pids that other programs have now, so only processes of the rig are hit.
  const own = new Set(rig.processes().map(({ pid }) => pid));
  const ofStack = (pid: number | undefined): readonly number[] => (pid !== undefined && own.has(pid) ? [pid] : []);
  const keepers = rig.keepers().map(({ pid }) => pid);
  const below = keepers.length === 0 ? [] : rig.descendants(...keepers);
  const named = (pattern: RegExp): readonly number[] =>
    below.flatMap(({ pid, command }) => (pattern.test(command) ? [pid] : []));
  const vmms = named(/^\S*qemu-system-x86_64 /);
  return {
    supervisor: ofStack(stack?.supervisorPid),
    server: ofStack(stack?.serverPid),
    worker: ofStack(stack?.workerPid),
    keeper: keepers,
    jail: named(/^\S*bwrap /),
    lifeline: named(/^\S*voidbox-vm lifeline /),
    vmm: vmms,
    cli: livingClis(clis),
    'new keeper': keepers.filter(isNew),
    'new vmm': vmms.filter(isNew),
  };
}

/** True in the first second of a process. */
function isNew(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const startedAtTicks = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]);
    const uptimeS = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]);
    return uptimeS - startedAtTicks / TICKS_PER_SECOND < 1;
  } catch {
    return false;
  }
}

function livingClis(clis: readonly RunningCli[]): readonly number[] {
  return clis.flatMap(({ child }) =>
    child.pid !== undefined && child.exitCode === null && child.signalCode === null ? [child.pid] : [],
  );
}

/** Neither a supervisor nor a command is left, so nothing starts again on its own. */
export function isDeserted(rig: Rig, clis: readonly RunningCli[]): boolean {
  // Most often a command is there; the other check reads every process of the machine.
  return livingClis(clis).length === 0 && targetsOf(rig, clis).supervisor.length === 0;
}

/** Processes inside a jail name no state folder. They are known because they were seen below a keeper. */
export class JailedProcesses {
  readonly #rig: Rig;
  readonly #seen = new Map<string, string>();

  constructor(rig: Rig) {
    this.#rig = rig;
  }

  look(): void {
    const keepers = this.#rig.keepers().map(({ pid }) => pid);
    if (keepers.length === 0) return;
    for (const { pid, command } of this.#rig.descendants(...keepers)) {
      const name = identityOf(pid);
      if (name !== null) this.#seen.set(name, command.slice(0, 80));
    }
  }

  living(): readonly string[] {
    for (const name of this.#seen.keys()) if (identityOf(Number(name.split('/')[0])) !== name) this.#seen.delete(name);
    return [...this.#seen].map(([name, command]) => `process ${name.split('/')[0]}: ${command}`);
  }
}

/** A pid with its start time, because another process may have the pid now. */
function identityOf(pid: number): string | null {
  if (!isAlive(pid)) return null;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return `${pid}/${stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]}`;
  } catch {
    return null;
  }
}

/** Processes of the rig beside its stack and the command lines that still run. */
export function strayProcesses(rig: Rig): readonly string[] {
  const supervisor = rig.stack()?.supervisorPid;
  const ofStack = new Set(
    supervisor === undefined ? [] : [supervisor, ...rig.descendants(supervisor).map(({ pid }) => pid)],
  );
  return rig
    .processes()
    .flatMap(({ pid, command }) => (ofStack.has(pid) ? [] : [`process ${pid}: ${command.slice(0, 120)}`]));
}
