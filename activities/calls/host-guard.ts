/**
 * Guards activities on the queue that all workers of a server share: this host works only on runs that it admitted. A
 * task of another host's run fails for a retry, so that the host with its files and VMs can take it.
 */
import { Context } from '@temporalio/activity';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { AdmissionRecord } from '../admission/admission-record.ts';
import { ITEMS_ID_PREFIX } from '../admission/admitted-run.ts';
import type { Activities } from '../contract.ts';
import { toActivityFailure } from '../failure.ts';
import type { RunRecords } from '../ports/run-records.ts';

const MOST_KNOWN_RUNS = 1_000;
/** Long enough for the other worker to poll before this worker polls again. */
const RETRY_DELAY_MS = 100;

export function guardByHost(activities: Activities, records: Pick<RunRecords, 'get'>, hostId: string): Activities {
  const known = new Set<string>();
  const check = async (runId: string): Promise<void> => {
    if (known.has(runId)) return;
    const admission = (await records.get(runId, 'admission').catch((error: unknown) => {
      throw toActivityFailure(error);
    })) as Pick<AdmissionRecord, 'hostId'> | null | undefined;
    if (admission?.hostId !== hostId) {
      throw toActivityFailure(
        new CodedError('host/elsewhere', `run ${runId} was admitted by another host, which has its files and VMs`, {
          nextRetryDelayMs: RETRY_DELAY_MS,
        }),
      );
    }
    if (known.size >= MOST_KNOWN_RUNS) known.clear();
    known.add(runId);
  };
  const guardActivity =
    <Request extends { readonly runId: string }, Result>(activity: (request: Request) => Promise<Result>) =>
    async (request: Request): Promise<Result> => {
      // A call that comes from no workflow of the run is not passed to another host: the activity refuses it.
      if (isCallOfRun(request)) await check(request.runId);
      return await activity(request);
    };
  return {
    admit: activities.admit,
    acquireVm: guardActivity(activities.acquireVm),
    runStage: guardActivity(activities.runStage),
    releaseVm: guardActivity(activities.releaseVm),
    evaluateCondition: guardActivity(activities.evaluateCondition),
    findTime: guardActivity(activities.findTime),
    askApproval: guardActivity(activities.askApproval),
    recordApproval: guardActivity(activities.recordApproval),
    checkRejection: guardActivity(activities.checkRejection),
    beginItems: guardActivity(activities.beginItems),
    endItems: guardActivity(activities.endItems),
    appendEvents: guardActivity(activities.appendEvents),
    finishRun: guardActivity(activities.finishRun),
  };
}

function isCallOfRun({ runId }: { readonly runId: string }): boolean {
  const caller = Context.current().info.workflowExecution?.workflowId;
  return caller === runId || caller?.startsWith(ITEMS_ID_PREFIX) === true;
}
