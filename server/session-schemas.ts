/** The shapes of requests and answers about sessions of step machines. */
import { z } from '@hono/zod-openapi';
import { SESSION_ID_RULE, SESSION_NAME_RULE } from '../domain/step-machine/session-id.ts';
import { isSha256Beginning } from '../domain/units/sha256.ts';
import { MOST_SESSIONS, MOST_WAIT_SECONDS, SESSION_WAIT_SECONDS } from './limits.ts';
import { createLimit, Flag, Seconds, Text, Variables } from './schemas.ts';

const NAME_CHARACTERS = 256;
const Name = Text.min(1).max(NAME_CHARACTERS);

export const SessionPath = z.object({
  session: z.string().openapi({ param: { name: 'session', in: 'path' }, description: SESSION_ID_RULE }),
});

export const SessionWaitQuery = z.strictObject({
  wait: Seconds.optional().openapi({
    type: 'string',
    description: `Seconds to wait for the work of the session; at most ${MOST_WAIT_SECONDS}, by default ${SESSION_WAIT_SECONDS}.`,
  }),
});

export const SessionsQuery = z.strictObject({
  state: z.enum(['open', 'done', 'failed', 'cancelled']).optional(),
  waiting: Flag.optional().openapi({
    type: 'string',
    description: '`true`: only open sessions that wait for a person, with the steps.',
  }),
  limit: createLimit(MOST_SESSIONS, `The listed sessions; at most ${MOST_SESSIONS}, by default 50.`),
});

export const StartSessionBody = z
  .strictObject({
    skill: Name.openapi({ description: 'The name of a step machine that the stack has loaded.' }),
    session: z.string().openapi({ description: `The id of the session. ${SESSION_NAME_RULE}` }),
    params: z.unknown().optional().openapi({ description: 'The params of the step machine.' }),
    version: Name.optional().openapi({ description: 'The only version that the session accepts.' }),
    codeHash: z
      .string()
      .refine(isSha256Beginning, 'it is not 8 to 64 hexadecimal digits')
      .optional()
      .openapi({ description: 'The code that the session accepts: at least 8 digits of its hash.' }),
    subskill: Name.optional().openapi({ description: 'Starts this sub-skill instead.' }),
    variables: Variables,
  })
  .openapi('StartSession');

export const AdvanceBody = z
  .strictObject({
    step: Text.max(1_000),
    turn: z.number().int().min(0),
    output: z.unknown().openapi({ description: 'The answer; JSON of at most 256 KiB.' }),
  })
  .openapi('AnswerOfStep');

const ResultSchema = z
  .object({ kind: z.enum(['prompt', 'done', 'waiting', 'redirect', 'error']) })
  .openapi('StepResult', { description: 'Has further fields, by its kind.' });

export const SessionResultSchema = z
  .object({ session: z.string(), result: z.union([ResultSchema, z.null()]) })
  .openapi('SessionResult');

export const CancelledSessionSchema = z
  .object({ session: z.string(), wasOpen: z.boolean(), hasEnded: z.boolean() })
  .openapi('CancelledSession');

export const SessionSchema = z
  .object({
    session: z.string(),
    skill: z.string(),
    version: z.string(),
    codeHash: z.string(),
    status: z.string(),
    turn: z.number(),
    startedAt: z.string().nullable(),
    current: z.union([ResultSchema, z.null()]),
    open: z.array(z.object({ step: z.string(), turn: z.number(), phase: z.string() })).readonly(),
    visits: z.record(z.string(), z.number()),
    blocked: z.string().nullable(),
  })
  .openapi('Session', { description: 'Has further fields: those of `voidbox session status --json`.' });

export const ListedSessionsSchema = z
  .object({
    sessions: z
      .array(
        z.object({
          session: z.string(),
          skill: z.string().nullable(),
          state: z.string(),
          startedAt: z.string().nullable(),
          endedAt: z.string().nullable(),
          waiting: z
            .array(
              z.object({
                step: z.string(),
                turn: z.number(),
                assignee: z.string().nullable(),
                dueAt: z.string().nullable(),
              }),
            )
            .readonly()
            .optional(),
        }),
      )
      .readonly(),
    unasked: z
      .array(z.object({ session: z.string(), reason: z.string() }))
      .readonly()
      .optional(),
    hasMore: z.boolean(),
  })
  .openapi('Sessions');

export const StepRecordSchema = z
  .object({ step: z.string(), turn: z.number() })
  .openapi('StepRecord', { description: 'A completed step; has further fields.' });
