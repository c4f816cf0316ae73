/** Webhooks: requests of strangers, whose proof is their only right. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { toMediaType } from '../../app/cloud-events/read-events.ts';
import { readContentType } from '../../app/hooks/content-type.ts';
import { answerMeta, mayBeMeta } from '../../app/hooks/challenge.ts';
import { awaitHookAnswer } from '../../app/hooks/await-answer.ts';
import { createHookFinder, type FoundHook } from '../../app/hooks/find-hook.ts';
import type { HookHeaders } from '../../app/hooks/hook-request.ts';
import { type HookOutcome, receiveHook } from '../../app/hooks/receive-hook.ts';
import { answerOrigin, type OriginQuestion } from '../../app/hooks/origin-question.ts';
import { createRefusalLog, hideSecretProblems } from '../../app/hooks/refusal-log.ts';
import { shareSecretReads } from '../../app/hooks/share-secret-reads.ts';
import type { HookFormat } from '../../domain/delivery/trigger.ts';
import type { UnprovenRequests } from '../access/unproven-requests.ts';
import type { ApiOptions } from '../api-options.ts';
import { createHookMemory, useHookBody } from '../hook-body.ts';
import type { Bindings } from '../listener.ts';
import { createProblem, createRequestError, toProblemResponse } from '../problems.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readSegment } from './run-id.ts';

/** The segments of `/hooks/DEPLOYMENT/NAME`. */
const [DEPLOYMENT_SEGMENT, NAME_SEGMENT] = [2, 3];
const SECONDS_OF_MINUTE = 60;

const HookPath = z.object({
  deployment: z.string().openapi({ param: { name: 'deployment', in: 'path' } }),
  name: z.string().openapi({ param: { name: 'name', in: 'path' }, description: 'The name of the trigger.' }),
});

const AcceptedSchema = z
  .object({
    delivery: z.string().optional().openapi({ description: 'The id of the delivery, whose row is committed.' }),
    deliveries: z
      .array(z.string())
      .optional()
      .openapi({ description: 'For a batch of CloudEvents: the ids of its deliveries, in its order.' }),
    state: z.string().optional().openapi({ description: 'If the sender waited: the state of the delivery.' }),
  })
  .openapi('AcceptedEvent');

const RECEIVE = createRoute({
  method: 'post',
  path: '/hooks/{deployment}/{name}',
  summary: 'Accepts an event of a sender that proves itself; needs no token',
  request: { params: HookPath },
  responses: {
    200: { description: 'The output of the run, if the trigger has `respond`; or the answer to a challenge.' },
    202: describeJson('The event is accepted.', AcceptedSchema),
    ...PROBLEM,
  },
});

export function addHookRoutes(routes: OpenAPIHono, options: ApiOptions, unproven: UnprovenRequests): void {
  const receiver = createReceiver(options, unproven);
  routes.openapi(RECEIVE, (async (context: Context) => await receiver.receive(context)) as never);
  routes.all('/hooks/:deployment/:name', async (context) => await receiver.answerOther(context));
}

interface Receiver {
  receive(context: Context): Promise<Response>;
  /** Answers a request that is no POST. */
  answerOther(context: Context): Promise<Response>;
}

function createReceiver({ access, machine, hooks, limits, log }: ApiOptions, unproven: UnprovenRequests): Receiver {
  const readMs = (): number => machine.now().getTime();
  const memory = createHookMemory(limits);
  const logRefusal = createRefusalLog({ log, nowMs: readMs });
  const openTriggers = async () => (await access('find')).triggers;
  const { readSecrets: read = () => Promise.resolve([]), wake = () => undefined } = hooks ?? {};
  const readSecrets = hideSecretProblems(shareSecretReads(read), { log, nowMs: readMs });
  const findHook = createHookFinder(async () => (await openTriggers()).deployments);
  let waits = 0;

  const find = async (context: Context): Promise<FoundHook> => {
    const [deployment, name] = [DEPLOYMENT_SEGMENT, NAME_SEGMENT].map((at) => readSegment(context, at, 'a name'));
    const hook = await findHook({ deployment: deployment!, name: name! });
    if (hook === null) throw createRequestError('api/no-hook', 'there is no webhook with this path');
    return hook;
  };

  const answer = async (hook: FoundHook, outcome: HookOutcome, context: Context): Promise<Response> => {
    if (outcome.kind === 'challenge') return context.text(outcome.answer);
    if (outcome.kind === 'refused') {
      logRefusal(hook, outcome.refusal);
      throw createRequestError('api/hook-unproven', 'the request does not prove its sender');
    }
    // A sender of several events waits for no run.
    if (outcome.kind === 'batch') return context.json({ deliveries: outcome.deliveries }, 202);
    const { delivery } = outcome;
    const { respond } = hook.source;
    // A sender that would wait beyond the limit gets its answer at once.
    if (respond === null || waits >= limits.hookWaits) return context.json({ delivery }, 202);
    waits += 1;
    try {
      const { deliveries } = await openTriggers();
      const wait = { deliveries, signal: context.req.raw.signal };
      const found = await awaitHookAnswer(delivery, respond, wait, machine);
      if (found.kind === 'open') return context.json({ delivery, state: found.state }, 202);
      if (found.kind === 'failed') throw createRequestError('api/hook-failed', `${found.runId}: ${found.reason}`);
      return new Response(Buffer.from(found.bytes), {
        status: respond.status,
        headers: { 'content-type': found.contentType, 'content-disposition': 'attachment' },
      });
    } finally {
      waits -= 1;
    }
  };

  return {
    receive: async (context) =>
      await unproven.count(context, async (sender, prove) => {
        const hook = await find(context);
        const contentType = requireType(context, hook.source.format);
        const { deliveries } = await openTriggers();
        const { raw } = context.req;
        const reading = { announced: context.req.header('content-length'), address: sender, memory };
        const outcome = await useHookBody(raw.body, reading, async (body) => {
          const request = { headers: readHeaders(context), body, contentType, nowMs: readMs() };
          const onVerified = hook.source.verify.scheme === 'none' ? () => undefined : prove;
          return await receiveHook(hook, request, { deliveries, readSecrets, wake, nowMs: readMs, onVerified });
        });
        return await answer(hook, outcome, context);
      }),
    answerOther: async (context) =>
      await unproven.count(context, async (_sender, prove) => {
        const { method } = context.req;
        const question = method === 'OPTIONS' ? readOriginQuestion(context) : null;
        if (question !== null && (await find(context)).source.format === 'cloudevents') {
          const headers = answerOrigin(question, limits.unprovenPerSecond * SECONDS_OF_MINUTE);
          if (headers === null)
            throw createRequestError('api/invalid-request', 'the header `WebHook-Request-Origin` or `-Rate` is wrong');
          return new Response(null, { status: 200, headers });
        }
        const mode = method === 'GET' ? context.req.query('hub.mode') : undefined;
        const hook = mode === undefined ? null : await find(context);
        const verify = hook?.source.verify;
        if (hook === null || verify === undefined || verify.scheme === 'none' || !mayBeMeta(verify))
          return toProblemResponse(createProblem('api/hook-method', `a webhook takes POST, and not ${method}`), {
            allow: 'POST',
          });
        const [token = null, challenge = null] = [
          context.req.query('hub.verify_token'),
          context.req.query('hub.challenge'),
        ];
        const secrets = await readSecrets(hook.deployment, verify.secret);
        const text = answerMeta({ mode: mode ?? null, token, challenge }, secrets);
        if (text === null) {
          logRefusal(hook, secrets.length === 0 ? 'no-secret' : 'wrong');
          throw createRequestError('api/hook-unproven', 'the request does not prove its sender');
        }
        prove();
        return context.text(text);
      }),
  };
}

/**
 * @returns null for an event of CloudEvents without a type
 * @throws AppError `api/unsupported-body`
 */
function requireType({ req }: Context, format: HookFormat): string | null {
  if (req.header('content-encoding') !== undefined)
    throw createRequestError('api/unsupported-body', 'an event has no `Content-Encoding`');
  const header = req.header('content-type') ?? null;
  if (format === 'cloudevents' && header === null) return null;
  const type = format === 'cloudevents' ? toMediaType(header ?? '') : readContentType(header);
  if (type === null && format === 'cloudevents')
    throw createRequestError('api/unsupported-body', 'the `Content-Type` of the event is not a media type');
  if (type === null)
    throw createRequestError(
      'api/unsupported-body',
      'the `Content-Type` of an event is JSON, `application/x-www-form-urlencoded` or `text/plain`, in UTF-8',
    );
  return type;
}

/** @returns null for a request without an origin */
function readOriginQuestion({ req }: Context): OriginQuestion | null {
  const origin = req.header('webhook-request-origin') ?? null;
  return origin === null ? null : { origin, rate: req.header('webhook-request-rate') ?? null };
}

/** Node keeps every value of a header. A request of a test has only the joined ones. */
function readHeaders({ env, req }: Context): HookHeaders {
  const distinct = (env as Bindings | undefined)?.incoming?.headersDistinct;
  if (distinct === undefined) return new Map([...req.raw.headers].map(([name, value]) => [name, [value]]));
  return new Map(Object.entries(distinct).map(([name, values]) => [name, values ?? []]));
}
