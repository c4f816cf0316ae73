import type { RunIndex } from '../../activities/ports/run-index.ts';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import type { Stores } from '../../store/stores.ts';
import { emptyView, type RunView, withDamage } from '../../store/run-view.ts';
import { project } from '../../store/projection.ts';
import { matchRunId } from './run-id.ts';

/**
 * The id that `text` names; see `matchRunId`.
 * @throws AppError that lists the latest runs
 */
export async function findRunId(index: RunIndex, text: string): Promise<string> {
  return (await index.has(text)) ? text : matchRunId(text, await index.idsFrom(''));
}

/** @throws CodedError `store/damaged`, `store/io` */
export async function readView(reader: RunReader, runId: string): Promise<RunView> {
  let view = emptyView(runId);
  for await (const event of reader.read(runId, 0, { output: false })) view = project(view, event);
  return view;
}

/** Like `readView`, but for a damaged or unreadable run it returns the part that could be read, marked as damaged. */
export async function readWhatIsThere(
  { reader, inspector }: Pick<Stores, 'reader' | 'inspector'>,
  runId: string,
): Promise<RunView> {
  let view = emptyView(runId);
  try {
    for await (const event of reader.read(runId, 0, { output: false })) view = project(view, event);
    await inspector.checkMainRecords(runId, view.seq);
    return view;
  } catch (error) {
    if (!isCodedError(error)) throw error;
    return withDamage(view, error.message);
  }
}
