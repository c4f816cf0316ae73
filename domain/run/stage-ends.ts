/** The ends of the stages of a run, folded from its events. A later run may reuse them. */
import type { DataRef } from '../plan/plan.ts';
import { parseExecKey } from './attempt.ts';
import { lastNumber } from './event-id.ts';
import type { RunEvent, RunEventBody } from './event.ts';

export interface StageEnd {
  readonly state: 'succeeded' | 'passed' | 'failed' | 'cancelled' | 'skipped';
  readonly output: DataRef | null;
  readonly outputs: Readonly<Record<string, DataRef>>;
  /** The run in which the stage ran. */
  readonly ranIn: string;
  /** The number of its last attempt. 0: it did not run here, such as a stage that this run took over. */
  readonly attempt: number;
}

/** By stage. A stage that is missing has not ended. */
export type StageEnds = ReadonlyMap<string, StageEnd>;

export async function readStageEnds(runId: string, events: AsyncIterable<RunEvent>): Promise<StageEnds> {
  const fold = new StageEndFold(runId);
  for await (const { body } of events) fold.push(body);
  return fold.ends;
}

const NOTHING = { output: null, outputs: {} } as const;

class StageEndFold {
  readonly ends = new Map<string, StageEnd>();
  readonly #runId: string;
  /** Number of each stage's latest attempt. Late events of an earlier attempt are not the end of the stage. */
  readonly #attempts = new Map<string, number>();

  constructor(runId: string) {
    this.#runId = runId;
  }

  push(body: RunEventBody): void {
    switch (body.type) {
      case 'stage-started':
      case 'stage-asking':
        if (this.#isLatest(body)) this.ends.delete(body.stage);
        break;
      case 'stage-finished': {
        const { outcome, output, outputs } = body.result;
        if (this.#isLatest(body)) this.#end(body.stage, outcome, { output, outputs });
        break;
      }
      case 'stage-answered':
        if (this.#isLatest(body)) this.#end(body.stage, body.outcome, { output: body.output ?? null, outputs: {} });
        break;
      case 'stage-woken':
        if (this.#isLatest(body)) this.#end(body.stage, body.outcome, NOTHING);
        break;
      case 'stage-failed':
        if (this.#isLatest(body)) this.#end(body.stage, 'failed', NOTHING);
        break;
      case 'stage-retrying':
        if (this.#isLatest(body)) this.ends.delete(body.stage);
        break;
      case 'stage-skipped':
        this.#end(body.stage, 'skipped', NOTHING);
        break;
      case 'stage-passed':
        this.#end(body.stage, 'passed', { output: body.output ?? null, outputs: {} });
        break;
      case 'stage-given': {
        const { stage, outcome, output, outputs, runId } = body;
        this.ends.set(stage, { state: outcome, output, outputs, ranIn: runId, attempt: 0 });
        break;
      }
      case 'scope-restarted':
      case 'loop-visited':
        for (const stage of body.stages) this.ends.delete(stage);
        break;
      case 'run-admitted':
      case 'run-resumed':
      case 'run-finished':
      case 'vm-starting':
      case 'vm-ready':
      case 'vm-lost':
      case 'vm-stopped':
      case 'checkpoint-made':
      case 'checkpoint-failed':
      case 'stage-progress':
      case 'stage-published':
      case 'stage-resumed':
      case 'stage-reattached':
      // A wait has one attempt in each run of its scope. If its end is recorded before its start, the end counts.
      case 'stage-sleeping':
      case 'output':
      case 'agent-text':
      case 'agent-tool':
      case 'agent-tool-output':
      case 'agent-asked':
      case 'agent-usage':
      case 'skill-step':
      case 'network':
      case 'notice':
        break;
      // A type of a later build.
      default:
        break;
    }
  }

  #end(stage: string, state: StageEnd['state'], { output, outputs }: Pick<StageEnd, 'output' | 'outputs'>): void {
    const attempt = this.#attempts.get(stage) ?? 0;
    this.ends.set(stage, { state, output, outputs, ranIn: this.#runId, attempt });
  }

  /** Whether the attempt is the latest one of the stage. Attempts of items are not attempts of the stage. */
  #isLatest({ stage, execKey }: { readonly stage: string; readonly execKey: string }): boolean {
    if ((parseExecKey(execKey)?.instance.length ?? 0) > 0) return false;
    const attempt = lastNumber(execKey);
    if (attempt < (this.#attempts.get(stage) ?? 0)) return false;
    this.#attempts.set(stage, attempt);
    return true;
  }
}
