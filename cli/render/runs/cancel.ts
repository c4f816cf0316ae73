/** Renders the result of a cancel. */
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import type { CancelFact } from '../../../app/runs/cancel-run.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';

/** @param last  its stages with `finally`, which a first cancel lets run */
export function renderCancel(
  { runId, state, wasRunning }: CancelFact,
  last: readonly string[],
  advise: (text: string) => string,
): string {
  if (!wasRunning) return `${formatRunId(runId)} had already ended: ${state}\n`;
  if (state !== 'cancelling') return `${formatRunId(runId)} ${state}\n`;
  const run = quoteRunId(runId);
  return [
    advise(`${formatRunId(runId)} is asked to stop. See: voidbox status ${run}\n`),
    ...(last.length === 0
      ? []
      : [
          advise(
            `Stages with \`finally\` run before it ends: ${last.map(sanitizeLine).join(', ')}. To stop them too: voidbox cancel ${run}\n`,
          ),
        ]),
  ].join('');
}
