/** Runs of one command, which belong to an activity of another workflow. */
import type { AdmissionRecord } from '../../activities/admission/admission-record.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { AppError } from '../app-error.ts';
import { formatRunId } from './run-id.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

/**
 * @param admission  the admission record of the run; null if it cannot be read
 * @throws AppError for the run of a command: the server knows no workflow with its id, and the run has no spec
 */
export function refuseCommandRun(
  runId: string,
  admission: Partial<AdmissionRecord> | null | undefined,
  what: 'cancel' | 'repeat',
): void {
  const workflowId = admission?.command?.workflowId;
  if (workflowId === undefined) return;
  throw new AppError(
    'usage',
    'cli/command-run',
    `run ${formatRunId(runId)} is a command of the workflow ${sanitizeLine(workflowId)}: only that workflow can ${what} it`,
    what === 'cancel'
      ? `temporal workflow cancel --workflow-id ${quoteArgument(workflowId)}`
      : 'Start that workflow again.',
  );
}
