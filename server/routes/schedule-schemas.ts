/** The shapes of requests and answers about schedules. */
import { z } from '@hono/zod-openapi';
import type { AskedRun, BackfilledTime, ScheduleJson } from '../../app/schedules/manage-schedules.ts';
import { CATCHUPS, OVERLAPS } from '../../domain/delivery/trigger.ts';
import { DELIVERY_STATES, HOLDS } from '../../domain/delivery/delivery.ts';
import { Text } from '../schemas.ts';

const Time = z.iso.datetime({ offset: true, error: 'it is not a time of ISO 8601 with a zone' });

export const SchedulesQuery = z.strictObject({ deployment: Text.optional() });

export const SchedulePath = z.object({
  deployment: z.string().openapi({ param: { name: 'deployment', in: 'path' } }),
  trigger: z
    .string()
    .openapi({ param: { name: 'trigger', in: 'path' }, description: 'The name of a trigger that is a schedule.' }),
});

const TimeSchema = z.object({
  at: z.string().openapi({ description: 'ISO 8601 in UTC.' }),
  local: z.string().openapi({ description: 'ISO 8601 in the zone of the schedule.' }),
});

export const ScheduleSchema = z
  .object({
    deployment: z.string(),
    trigger: z.string(),
    cron: z.array(z.string()).readonly().openapi({
      description:
        'Lines of cron; empty if `everyMs` is set. A line that restricts both days is a calendar, and starts on days that are both.',
    }),
    everyMs: z.number().nullable(),
    timezone: z.string(),
    jitterMs: z.number(),
    catchup: z.enum(CATCHUPS),
    windowMs: z.number(),
    overlap: z.enum(OVERLAPS),
    isPaused: z.boolean(),
    pausedBy: z
      .enum(['schedule', 'deployment'])
      .nullable()
      .openapi({ description: 'Whether its own pause, or that of its deployment, stops it; null: none.' }),
    note: z.string().nullable().openapi({ description: 'The note of its pause.' }),
    next: z.array(TimeSchema).readonly().nullable().openapi({
      description:
        'At most five, empty while it is paused. Null: the server of Temporal does not answer, or does not have it yet.',
    }),
    last: z
      .object({
        id: z.string(),
        state: z.enum(DELIVERY_STATES),
        hold: z.enum(HOLDS).nullable(),
        code: z.string().nullable(),
        runId: z.string().nullable(),
        acceptedAtMs: z.number(),
        scheduledAtMs: z.number().nullable(),
      })
      .nullable()
      .openapi({ description: 'Its latest delivery; null: none is kept.' }),
  })
  .openapi('Schedule');

export const ScheduleListSchema = z.object({ schedules: z.array(ScheduleSchema).readonly() }).openapi('ScheduleList');

export const PauseScheduleBody = z
  .strictObject({ note: Text.default('').openapi({ description: 'Why; at most 500 bytes.' }) })
  .openapi('PauseSchedule');

export const AskedRunSchema = z
  .object({
    delivery: z.string(),
    runId: z.string().openapi({ description: 'The run that the delivery starts.' }),
  })
  .openapi('AskedRun');

export const BackfillBody = z
  .strictObject({
    from: Time.openapi({ description: 'The first time of the range, as ISO 8601 with a zone.' }),
    to: Time.openapi({ description: 'The last time of the range; not in the future.' }),
    isDry: z.boolean().default(false).openapi({ description: 'Only list the times.' }),
  })
  .openapi('BackfillSchedule');

export const BackfilledSchema = z
  .object({
    times: z
      .array(TimeSchema.extend({ delivery: z.string().nullable().openapi({ description: 'Null: a dry run.' }) }))
      .readonly(),
  })
  .openapi('BackfilledSchedule');

const Ms = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

/** The request of a worker, which hands over a time that the server of Temporal has started. */
export const FiredBody = z
  .strictObject({
    owner: Text.max(64),
    atMs: Ms.openapi({ description: 'The time of the schedule.' }),
    firedAtMs: Ms.openapi({ description: 'The start of the workflow.' }),
    firing: Text.min(1).max(255).openapi({ description: 'The id of the workflow; a repeated request has the same.' }),
  })
  .openapi('FiredTime');

export const HandedOverSchema = z
  .object({
    delivery: z.string().nullable().openapi({ description: 'Null: the deployment no longer has such a schedule.' }),
  })
  .openapi('HandedOverTime');

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedSchedules = [
  Promised<ScheduleJson, z.input<typeof ScheduleSchema>>,
  Promised<AskedRun, z.input<typeof AskedRunSchema>>,
  Promised<{ readonly times: readonly BackfilledTime[] }, z.input<typeof BackfilledSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
