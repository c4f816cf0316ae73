/** Open questions, kept VMs, and whether the service can do work now. */
import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { limitToVisible, mayCallerSee } from '../../app/access/visible-runs.ts';
import { endRetained, type ListedRetainedVm, listRetained } from '../../app/service/retained-vms.ts';
import { listQuestions, type ListedQuestions, MOST_QUESTIONS } from '../../app/service/open-questions.ts';
import { checkReadiness, type Readiness } from '../../app/service/readiness.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { RunPath } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readSegment } from './run-id.ts';

/** The segments in a path: `/api/v1/vms/RUN/STAGE`. */
const [RUN_SEGMENT, STAGE_SEGMENT] = [4, 5];

const ReadySchema = z
  .object({
    isReady: z.boolean(),
    missing: z.array(z.object({ part: z.enum(['server', 'worker', 'disk', 'store']), problem: z.string() })).readonly(),
  })
  .openapi('Readiness');

const FieldSchema = z.object({
  name: z.string(),
  type: z.string(),
  required: z.boolean(),
  description: z.string(),
  choices: z.array(z.string()).readonly(),
});

const QuestionsSchema = z
  .object({
    questions: z
      .array(
        z.object({
          runId: z.string(),
          name: z.string(),
          stage: z.string().openapi({ description: 'The stage that an answer names, such as `review[3].ok`.' }),
          message: z.string(),
          by: z.array(z.string()).readonly(),
          selfApproval: z.boolean().openapi({ description: 'False: the token that started the run may not answer.' }),
          fields: z.array(FieldSchema).readonly(),
          deadlineAt: z.string().nullable(),
          onTimeout: z.string(),
          item: z.string().optional(),
        }),
      )
      .readonly(),
    hasMore: z.boolean().openapi({ description: `There are more than ${MOST_QUESTIONS}.` }),
  })
  .openapi('Questions');

const VmSchema = z
  .object({
    runId: z.string(),
    stage: z.string(),
    vmKey: z.string(),
    memoryMib: z.number().nullable(),
    retainedAtMs: z.number(),
    untilMs: z.number(),
  })
  .openapi('RetainedVm');

const VmsSchema = z.object({ vms: z.array(VmSchema).readonly() }).openapi('RetainedVms');

const READY = createRoute({
  method: 'get',
  path: '/ready',
  summary: 'Answers whether runs can start now, and what is missing',
  responses: {
    200: describeJson('Runs can start.', ReadySchema),
    503: describeJson('A part is missing.', ReadySchema),
    ...PROBLEM,
  },
});

const QUESTIONS = createRoute({
  method: 'get',
  path: '/questions',
  summary: 'Lists the questions of open runs that wait for an answer',
  responses: { 200: describeJson('The questions.', QuestionsSchema), ...PROBLEM },
});

const VMS = createRoute({
  method: 'get',
  path: '/vms',
  summary: 'Lists the VMs that failed stages have kept',
  responses: { 200: describeJson('The VMs, oldest first.', VmsSchema), ...PROBLEM },
});

const END_VM = createRoute({
  method: 'delete',
  path: '/vms/{runId}/{stage}',
  summary: 'Ends a VM that a failed stage has kept',
  request: { params: RunPath.extend({ stage: z.string().openapi({ param: { name: 'stage', in: 'path' } }) }) },
  responses: { 200: describeJson('The VM has ended.', VmSchema), ...PROBLEM },
});

export function addOpenWorkRoutes(routes: OpenAPIHono, { machine }: ApiOptions): void {
  routes.openapi(READY, async (context) => {
    const readiness = await checkReadiness(machine);
    return context.json(readiness, readiness.isReady ? 200 : 503);
  });
  routes.openapi(QUESTIONS, async (context) =>
    context.json(await listQuestions(limitToVisible(machine, getCaller(context))), 200),
  );
  routes.openapi(VMS, async (context) => {
    const caller = getCaller(context);
    return context.json({ vms: await listRetained((runId) => mayCallerSee(caller, runId), machine) }, 200);
  });
  routes.openapi(END_VM, async (context) => {
    const runId = readSegment(context, RUN_SEGMENT, 'the id of the run');
    const stage = readSegment(context, STAGE_SEGMENT, 'the stage');
    return context.json(await endRetained({ runId, stage }, machine), 200);
  });
}

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedWork = [
  Promised<Readiness, z.input<typeof ReadySchema>>,
  Promised<ListedQuestions, z.input<typeof QuestionsSchema>>,
  Promised<ListedRetainedVm, z.input<typeof VmSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
