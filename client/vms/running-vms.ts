/** VMs whose stages run, found by their run directories and by what their keepers say, without a worker. */
import { parseExecKey } from '../../domain/run/attempt.ts';
import { formatStageName } from '../../domain/run/instance.ts';
import { askVmStatus, readEntry, type VmEntry } from '../../native/index.ts';
import { listVms } from './vm-list.ts';

export interface RunningStage {
  /** As people write it: `fix`, `fixes[1].work`. */
  readonly label: string;
  readonly stage: string;
  /** The exec key of the running command. */
  readonly execKey: string;
  readonly dir: string;
  readonly vmKey: string;
  /** Null: its worker does not allow commands of people in it. */
  readonly entry: VmEntry | null;
}

const ANSWER_LIMIT_MS = 2_000;

/** Stages of a run with a command that runs in a VM of this host, one entry for a stage. */
export async function listRunningStages(
  stateDir: string,
  runId: string,
  findKeeper: () => Promise<string>,
): Promise<readonly RunningStage[]> {
  const vms = (await listVms(stateDir, findKeeper)).filter((vm) => vm.runId === runId && vm.activity === 'running');
  const byLabel = new Map<string, RunningStage>();
  for (const { dir, vmKey } of vms) {
    const entry = await readEntry(dir);
    for (const execKey of await readRunningKeys(dir)) {
      const name = parseExecKey(execKey);
      if (name === null || vmKey === null) continue;
      const label = formatStageName(name.stage, name.instance);
      if (!byLabel.has(label)) byLabel.set(label, { label, stage: name.stage, execKey, dir, vmKey, entry });
    }
  }
  return [...byLabel.values()].toSorted((one, other) => (one.label < other.label ? -1 : 1));
}

async function readRunningKeys(dir: string): Promise<readonly string[]> {
  try {
    const { execs } = await askVmStatus(dir, AbortSignal.timeout(ANSWER_LIMIT_MS));
    return execs.filter(({ state }) => state === 'running').map(({ execKey }) => execKey);
  } catch {
    // It has just ended.
    return [];
  }
}
