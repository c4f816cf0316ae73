/** Which processes a storm can hit, and which must be gone after it. */
import { readFileSync } from 'node:fs';
import { isAlive, type Rig, type RunningCli } from '../e2e/rig.ts';
import type { Target } from './strikes.ts';

/** The living processes of each kind, as they are now. */
export function targetsOf(rig: Rig, clis: readonly RunningCli[]): Readonly<Record<Target, readonly number[]>> {
  const stack = rig.stack();
  // `stack.json` may name pids that are somebody else's by now: this hits nobody who has nothing to do with the rig.
  const own = new Set(rig.processes().map(({ pid }) => pid));
  const ofStack = (pid: number | undefined): readonly number[] => (pid !== undefined && own.has(pid) ? [pid] : []);
  const keepers = rig.keepers().map(({ pid }) => pid);
  const below = keepers.flatMap((pid) => rig.descendants(pid));
  const named = (pattern: RegExp): readonly number[] =>
    below.flatMap(({ pid, command }) => (pattern.test(command) ? [pid] : []));
  return {
    supervisor: ofStack(stack?.supervisorPid),
    server: ofStack(stack?.serverPid),
    worker: ofStack(stack?.workerPid),
    keeper: keepers,
    jail: named(/^\S*bwrap /),
    lifeline: named(/^\S*voidbox-vm lifeline /),
    vmm: named(/^\S*qemu-system-x86_64 /),
    cli: clis.flatMap(({ child }) =>
      child.pid !== undefined && child.exitCode === null && child.signalCode === null ? [child.pid] : [],
    ),
  };
}

/** What runs inside a jail names no state folder: it is known by having been seen below a keeper. */
export class JailedProcesses {
  readonly #rig: Rig;
  readonly #seen = new Map<string, string>();

  constructor(rig: Rig) {
    this.#rig = rig;
  }

  look(): void {
    for (const { pid } of this.#rig.keepers()) {
      for (const { pid: jailed, command } of this.#rig.descendants(pid)) {
        const name = identityOf(jailed);
        if (name !== null) this.#seen.set(name, command.slice(0, 80));
      }
    }
  }

  living(): readonly string[] {
    for (const name of this.#seen.keys()) if (identityOf(Number(name.split('/')[0])) !== name) this.#seen.delete(name);
    return [...this.#seen].map(([name, command]) => `process ${name.split('/')[0]}: ${command}`);
  }
}

/** A pid with its start: a pid alone may be anybody's by now. */
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
