/** Texts about the changes of an agent whose attempt failed or was interrupted. */
import { PARTIAL_OUTPUTS } from '../plan/workspace.ts';
import { quoteRunId } from './run-id.ts';

const BEFORE_CHANGES = 'its changes (';

/** Follows the message of a failure. @param stage  as people write it: `fix`, `fixes[1].work` */
export function describePartial(runId: string, stage: string, files: number): string {
  const count = `${files} ${files === 1 ? 'file differs' : 'files differ'}`;
  const of = /^[\w.-]+$/.test(stage) ? '' : ` --stage "${stage}"`;
  const run = quoteRunId(runId);
  const args = runId.startsWith('-') ? `--partial${of} ${run}` : `${run} --partial${of}`;
  return `${BEFORE_CHANGES}${count}) are kept as ${stage}.${PARTIAL_OUTPUTS.patch}: \`voidbox apply ${args}\``;
}

/** The message of a failure without these words. */
export function withoutPartial(message: string): string {
  const at = message.indexOf(`; ${BEFORE_CHANGES}`);
  return at === -1 ? message : message.slice(0, at);
}
