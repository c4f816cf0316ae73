/**
 * Boots of VMs as markers in history. A VM of one stage boots within `runStage`, whose summary was fixed before. So the
 * Temporal UI shows the boot by the summary of a local activity: one event, within the workflow task that takes the
 * stage's result.
 */
import { proxyLocalActivities, TemporalFailure } from '@temporalio/workflow';
import type { LocalActivities } from '../activities/contract.ts';
import type { MachineEvent } from '../domain/pipeline/event.ts';
import { formatDurationMs } from '../domain/units/duration.ts';
import { summaryOf } from './summary.ts';

/** The activity does nothing: only a worker that is stopped takes this long, and then the marker contains a failure. */
const OPTIONS = { startToCloseTimeout: 10_000, retry: { maximumAttempts: 1 } } as const;

const { recordBoot } = proxyLocalActivities<LocalActivities>(OPTIONS);

/** Writes a marker with this summary. */
type Mark = (summary: string) => Promise<void>;

const markInHistory: Mark = (summary) => recordBoot.executeWithOptions({ ...OPTIONS, summary }, []);

export class Boots {
  readonly #areRecorded: boolean;
  readonly #mark: Mark;
  #settled: Promise<void> | null = null;

  /**
   * @param areRecorded  the setting from the run's admission. Without the activity on the workflow's own worker, the
   * SDK makes no command for a marker, but expects the marker in each replay
   */
  constructor(areRecorded: boolean, mark: Mark = markInHistory) {
    this.#areRecorded = areRecorded;
    this.#mark = mark;
  }

  /** Returns the event, after recording the boot in its result. */
  ofStage(stage: string, event: MachineEvent): MachineEvent {
    if (event.type === 'stage-finished') this.record(stage, event.result.bootMs);
    return event;
  }

  /**
   * @param stages  the stages of the VM, for people
   * @param bootMs  from an activity's answer, which any client of the server can have written
   */
  record(stages: string, bootMs: unknown): void {
    if (!this.#areRecorded || typeof bootMs !== 'number' || !Number.isFinite(bootMs) || bootMs < 0) return;
    const summary = summaryOf(`VM of ${stages}`, ` booted in ${formatDurationMs(bootMs)}`);
    const recorded = this.#mark(summary).catch((error: unknown) => {
      // Other errors belong to the workflow's own worker, which lacks the activity: another worker takes the task.
      if (!(error instanceof TemporalFailure)) throw error;
    });
    const before = this.#settled;
    this.#settled = before === null ? recorded : recorded.then(() => before);
  }

  /** The SDK drops the markers of local activities that run when their workflow ends. */
  async settled(): Promise<void> {
    await this.#settled;
  }
}
