/** A run in memory whose stage asks, with a server that accepts the first valid answer, as the workflow does. */
import { ApplicationFailure, type Client, WorkflowUpdateFailedError } from '@temporalio/client';
import type { Machine } from '../../../app/machine.ts';
import type { ServerLink } from '../../../client/temporal/server-link.ts';
import { checkFields, checkGivenFields } from '../../../domain/run/approval-answer.ts';
import type { Question } from '../../../domain/run/event.ts';
import type { Stores } from '../../../store/stores.ts';
import type { AnswerReceipt, AnswerRequest } from '../../../workflows/run/answer-request.ts';
import { MemoryPlace, openMemoryStores } from './memory-stores.ts';
import { createTestMachine } from './test-machine.ts';

export interface AnsweringRun {
  readonly stores: Stores;
  readonly machine: Machine;
  /** The answers that have reached the server. */
  readonly sent: AnswerRequest[];
  /** The next answer fails with this error, before the run has it. */
  failNext(error: Error): void;
}

export const QUESTION: Question = {
  message: 'Ship it?',
  by: ['anna', 'bob'],
  fields: [],
  deadlineAtMs: null,
  onTimeout: 'fail',
};

/** The run `r` of the spec `site`; its stage `ship` asks. */
export async function openAnsweringRun(
  change: Partial<Question>,
  machineChange: Partial<Machine>,
): Promise<AnsweringRun> {
  const stores = openMemoryStores(new MemoryPlace());
  const question = { ...QUESTION, ...change };
  const asking = { stage: 'ship', execKey: 'ship/0/1', attempt: 1 } as const;
  await stores.events.append('r', [
    {
      id: 'run/admitted',
      atMs: 1,
      body: { type: 'run-admitted', name: 'site', kind: 'workflow', hostId: 'here', stages: [], outputStage: null },
    },
    { id: 'asking', atMs: 2, body: { type: 'stage-asking', ...asking, question } },
  ]);
  const sent: AnswerRequest[] = [];
  let failure: Error | null = null;
  let answer: AnswerReceipt | null = null;
  const refuse = (message: string): Error =>
    new WorkflowUpdateFailedError('refused', ApplicationFailure.nonRetryable(message, 'call/refused'));
  const executeUpdate = async (_name: string, { args: [request] }: { readonly args: [AnswerRequest] }) => {
    sent.push(request);
    if (failure !== null) {
      const thrown = failure;
      failure = null;
      throw thrown;
    }
    if (answer !== null) throw refuse('stage ship was answered already');
    const { decision, by = null, comment = null, fields } = request;
    const checked = (decision === 'approve' ? checkFields : checkGivenFields)(question.fields, fields);
    if ('problem' in checked) throw refuse(`run r: ${checked.problem}`);
    answer = { stage: 'ship', attempt: 1, decision, by, verified: true, comment, at: '2026-01-01T00:00:00.000Z' };
    const rejected = { code: 'stage/rejected', message: 'no', stderrTail: '' } as const;
    const end =
      decision === 'approve' ? { outcome: 'succeeded', failure: null } : { outcome: 'failed', failure: rejected };
    await stores.events.append('r', [
      { id: 'answered', atMs: 3, body: { type: 'stage-answered', ...asking, ...(end as object), by } as never },
    ]);
    return answer;
  };
  const describe = () =>
    Promise.resolve({ status: { name: 'RUNNING' }, startTime: new Date(), raw: { workflowExtendedInfo: {} } });
  const client = { workflow: { getHandle: () => ({ executeUpdate, describe }) } } as unknown as Client;
  const link = {
    isEmbedded: true,
    client: () => client,
    briefly: <T>(call: (client: Client) => Promise<T>) => call(client),
  } as Partial<ServerLink> as ServerLink;
  return {
    stores,
    machine: createTestMachine(stores, { stackLink: () => Promise.resolve(link), ...machineChange }),
    sent,
    failNext: (error) => (failure = error),
  };
}
