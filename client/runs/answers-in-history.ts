/**
 * Reads the answers that a run accepted from its history on the server. This also works if the run's log is on another
 * host or was pruned.
 */
import { type Client, defaultPayloadConverter } from '@temporalio/client';
import { RUN_MESSAGES } from '../../workflows/messages.ts';
import { type AnswerReceipt, type AnswerRequest, answerProblem } from '../../workflows/run/answer-request.ts';

export interface AnswerInHistory {
  /** The request as it was sent. Any client that reaches the server can have sent it. */
  readonly request: AnswerRequest;
  readonly receipt: AnswerReceipt;
}

type History = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['fetchHistory']>>;
type Payload = Parameters<typeof defaultPayloadConverter.fromPayload>[0];

/** Events of one page. A history has at most 51,200, and few of them are updates. */
const PAGE_EVENTS = 1_000;

/** Returns the last answer of each stage, in the order of the stages' first answers. It needs no running worker. */
export async function readAnswersInHistory(client: Client, runId: string): Promise<readonly AnswerInHistory[]> {
  const requests = new Map<string, AnswerRequest>();
  const answers = new Map<string, AnswerInHistory>();
  let nextPageToken: Uint8Array | null | undefined;
  do {
    const page = await client.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId: runId },
      maximumPageSize: PAGE_EVENTS,
      ...(nextPageToken ? { nextPageToken } : {}),
    });
    collect(page.history?.events ?? [], requests, answers);
    ({ nextPageToken } = page);
  } while (nextPageToken && nextPageToken.length > 0);
  return [...answers.values()];
}

/** @param requests  by the id of the event that accepted them */
function collect(
  events: NonNullable<History['events']>,
  requests: Map<string, AnswerRequest>,
  answers: Map<string, AnswerInHistory>,
): void {
  for (const event of events) {
    const input = event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input;
    if (input?.name === RUN_MESSAGES.answer) {
      const request = decodeFirst(input.args?.payloads);
      if (answerProblem(request) === null) requests.set(String(event.eventId), request as AnswerRequest);
    }
    const completed = event.workflowExecutionUpdateCompletedEventAttributes;
    const request = requests.get(String(completed?.acceptedEventId));
    const success = completed?.outcome?.success;
    if (request !== undefined && success)
      answers.set(request.stage, { request, receipt: decodeFirst(success.payloads) as AnswerReceipt });
  }
}

function decodeFirst(payloads: Payload[] | null | undefined): unknown {
  const payload = payloads?.[0];
  return payload === undefined ? undefined : defaultPayloadConverter.fromPayload(payload);
}
