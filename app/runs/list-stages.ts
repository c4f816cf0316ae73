/** Pages of the stages of a run, as `voidbox status --json` has them. */
import { type StageJson, toRunJson, withStageFacts } from '../json/run-json.ts';
import type { Machine } from '../machine.ts';
import { readRepairedViews } from './repair-runs.ts';
import { createNoRunError } from './run-elsewhere.ts';
import { readStageFacts } from './stage-facts.ts';

export interface StagePage {
  readonly stages: readonly StageJson[];
  /** The place of the first stage of the next page; null: no stage follows. */
  readonly next: number | null;
}

/**
 * Stages have the order of the spec, which never changes.
 * @param from  the place of the first stage, from 0
 * @throws AppError `api/no-run`
 */
export async function listStages(
  runId: string,
  { from, limit }: { readonly from: number; readonly limit: number },
  context: Machine,
): Promise<StagePage> {
  const [view] = await readRepairedViews([runId], context);
  if (view === undefined) throw createNoRunError(runId);
  const { stages } = withStageFacts(toRunJson(view), await readStageFacts(runId, context));
  const end = from + limit;
  return { stages: stages.slice(from, end), next: end < stages.length ? end : null };
}
