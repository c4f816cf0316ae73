/** Schedules of deployments: their state, pauses, times that a person asks for, and times that a worker hands over. */
import { createRoute, type OpenAPIHono } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { AppError } from '../../app/app-error.ts';
import { acceptFiredTime, type TimeTools } from '../../app/schedules/accept-time.ts';
import {
  startTimes,
  listSchedules,
  pauseSchedule,
  resumeSchedule,
  showSchedule,
  startScheduled,
} from '../../app/schedules/manage-schedules.ts';
import { createServerOpener } from '../../app/schedules/schedule-keeper.ts';
import { nameRunOf } from '../../domain/delivery/decide.ts';
import { getCaller, isOwner, noteChangedRuns } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readSegment } from './run-id.ts';
import {
  AskedRunSchema,
  BackfillBody,
  BackfilledSchema,
  FiredBody,
  HandedOverSchema,
  PauseScheduleBody,
  ScheduleListSchema,
  SchedulePath,
  ScheduleSchema,
  SchedulesQuery,
} from './schedule-schemas.ts';

const ROOT = '/deployments/{deployment}/schedules/{trigger}';
/** The segments of `/api/v1/deployments/DEPLOYMENT/schedules/TRIGGER`. */
const [DEPLOYMENT_SEGMENT, TRIGGER_SEGMENT] = [4, 6];

const LIST = createRoute({
  method: 'get',
  path: '/schedules',
  summary: 'Lists schedules by deployment, with their next times',
  request: { query: SchedulesQuery },
  responses: { 200: describeJson('The schedules.', ScheduleListSchema), ...PROBLEM },
});

const SHOW = createRoute({
  method: 'get',
  path: ROOT,
  summary: 'Reads a schedule with its next times and its latest delivery',
  request: { params: SchedulePath },
  responses: { 200: describeJson('The schedule.', ScheduleSchema), ...PROBLEM },
});

const PAUSE = createRoute({
  method: 'post',
  path: `${ROOT}/pause`,
  summary: 'Pauses a schedule: its times start nothing, also not later',
  request: {
    params: SchedulePath,
    body: { required: true, content: { 'application/json': { schema: PauseScheduleBody } } },
  },
  responses: { 200: describeJson('The schedule.', ScheduleSchema), ...PROBLEM },
});

const RESUME = createRoute({
  method: 'post',
  path: `${ROOT}/resume`,
  summary: 'Resumes a schedule; times that passed start nothing',
  request: { params: SchedulePath },
  responses: { 200: describeJson('The schedule.', ScheduleSchema), ...PROBLEM },
});

const TRIGGER = createRoute({
  method: 'post',
  path: `${ROOT}/trigger`,
  summary: 'Starts a run of a schedule now',
  request: { params: SchedulePath },
  responses: { 202: describeJson('The delivery is accepted.', AskedRunSchema), ...PROBLEM },
});

const BACKFILL = createRoute({
  method: 'post',
  path: `${ROOT}/backfill`,
  summary: 'Starts a run for each time of a range that has started none',
  request: {
    params: SchedulePath,
    body: { required: true, content: { 'application/json': { schema: BackfillBody } } },
  },
  responses: { 202: describeJson('The times, each with its delivery.', BackfilledSchema), ...PROBLEM },
});

const HAND_OVER = createRoute({
  method: 'post',
  path: `${ROOT}/times`,
  summary: 'Accepts a time of a schedule from a worker, over the Unix socket of the owner only',
  request: { params: SchedulePath, body: { required: true, content: { 'application/json': { schema: FiredBody } } } },
  responses: { 200: describeJson('The delivery is committed.', HandedOverSchema), ...PROBLEM },
});

export function addScheduleRoutes(routes: OpenAPIHono, { access, hooks, machine, schedules }: ApiOptions): void {
  const { openServer = createServerOpener(machine), wake = () => undefined } = schedules ?? {};
  const settle = schedules?.settle ?? (() => Promise.resolve());
  const openTools = async (): Promise<TimeTools> => ({
    triggers: (await access('find')).triggers,
    openServer,
    nowMs: () => machine.now().getTime(),
    wake: hooks?.wake ?? (() => undefined),
  });
  const readId = (context: Context) => ({
    deployment: readSegment(context, DEPLOYMENT_SEGMENT, 'the name'),
    trigger: readSegment(context, TRIGGER_SEGMENT, 'the trigger'),
  });
  routes.openapi(LIST, async (context) => {
    const { deployment = null } = context.req.valid('query');
    const tools = { ...(await openTools()), caller: getCaller(context) };
    return context.json({ schedules: await listSchedules(deployment, tools) }, 200);
  });
  routes.openapi(SHOW, async (context) => {
    const tools = { ...(await openTools()), caller: getCaller(context) };
    return context.json(await showSchedule(readId(context), tools), 200);
  });
  routes.openapi(PAUSE, async (context) => {
    const tools = { ...(await openTools()), caller: getCaller(context) };
    await pauseSchedule(readId(context), context.req.valid('json').note, tools);
    await settle();
    return context.json(await showSchedule(readId(context), tools), 200);
  });
  routes.openapi(RESUME, async (context) => {
    const tools = { ...(await openTools()), caller: getCaller(context) };
    await resumeSchedule(readId(context), tools);
    await settle();
    return context.json(await showSchedule(readId(context), tools), 200);
  });
  routes.openapi(TRIGGER, async (context) => {
    const asked = await startScheduled(readId(context), { ...(await openTools()), caller: getCaller(context) });
    noteChangedRuns(context, [asked.runId]);
    return context.json(asked, 202);
  });
  routes.openapi(BACKFILL, async (context) => {
    const { from, to, isDry } = context.req.valid('json');
    const id = readId(context);
    const request = { ...id, fromMs: Date.parse(from), toMs: Date.parse(to), isDry };
    const times = await startTimes(request, { ...(await openTools()), caller: getCaller(context) });
    noteChangedRuns(
      context,
      times.flatMap(({ delivery }) =>
        delivery === null ? [] : [nameRunOf({ deployment: id.deployment, id: delivery })],
      ),
    );
    return context.json({ times }, 202);
  });
  routes.openapi(HAND_OVER, async (context) => {
    // A token may start runs by other routes, and no token is a worker.
    if (!isOwner(context))
      throw new AppError('usage', 'api/not-allowed', 'only the owner of the Unix socket hands over times of schedules');
    const delivery = await acceptFiredTime({ ...context.req.valid('json'), ...readId(context) }, await openTools());
    // The server of Temporal has a schedule that no row wants.
    if (delivery === null) wake();
    return context.json({ delivery }, 200);
  });
}
