/** The shapes that retries and forks share. */
import { z } from '@hono/zod-openapi';
import type { ContinuedJson } from '../../app/json/continued-json.ts';
import type { OriginJson } from '../../app/json/origin-json.ts';
import type { LimitOptions } from '../../app/start/run-limits.ts';
import { PLAN_LIMITS } from '../../domain/plan/plan.ts';
import { DiagnosticSchema } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';

/** A run that asks for more would start, and fail at its admission. */
const RunLimit = z.number().int().positive().max(PLAN_LIMITS.waitMs);

export const RunLimits = { timeoutMs: RunLimit.optional(), deadlineMs: RunLimit.optional() };

export function readRunLimits({
  timeoutMs,
  deadlineMs,
}: Partial<Record<keyof typeof RunLimits, number | undefined>>): LimitOptions {
  return {
    ...(timeoutMs === undefined ? {} : { timeout: timeoutMs }),
    ...(deadlineMs === undefined ? {} : { deadline: deadlineMs }),
  };
}

const OriginFields = {
  origin: z.object({
    runId: z.string(),
    kind: z.enum(['retry', 'fork']),
    from: z.string().nullable(),
  }),
  given: z.array(z.string()).readonly().openapi({ description: 'Stages whose results are taken over.' }),
  again: z
    .array(
      z.object({
        stage: z.string(),
        because: z.string(),
        of: z.string().nullable(),
        keys: z.array(z.string()).readonly(),
        state: z.string().nullable(),
        unsaved: z.string().nullable(),
      }),
    )
    .readonly()
    .openapi({ description: 'Stages that run again, and why.' }),
  checkpoints: z
    .array(z.object({ scope: z.string(), after: z.string() }))
    .readonly()
    .openapi({ description: 'VMs that start from a checkpoint of a step.' }),
};

const PreviewSchema = z
  .object({
    ...OriginFields,
    continued: z
      .array(z.object({ stage: z.string(), savedAt: z.string() }))
      .readonly()
      .optional()
      .openapi({ description: 'Agents that continue; with further fields, as `voidbox retry --json` prints them.' }),
    limits: z
      .object({ stages: z.record(z.string(), z.unknown()).readonly() })
      .optional()
      .openapi({ description: 'The limits that a retry whose agents continue changes.' }),
    isOfOtherToken: z
      .boolean()
      .optional()
      .openapi({ description: 'For a retry: another token started the earlier run.' }),
    plan: z.object({ name: z.string() }).optional().openapi({ description: 'The plan, with `preview=plan`.' }),
  })
  .openapi('RerunPreview');
const StartedRerunSchema = z
  .object({ runId: z.string(), diagnostics: z.array(DiagnosticSchema).readonly(), ...OriginFields })
  .openapi('StartedRerun');

export const RERUN_RESPONSES = {
  200: describeJson(
    'The preview, or the run that the same request had started before.',
    z.union([StartedRerunSchema, PreviewSchema]),
  ),
  201: {
    ...describeJson('The run has started. `Location` is its path.', StartedRerunSchema),
    headers: { Location: { schema: { type: 'string' } } },
  },
  ...PROBLEM,
} as const;

/** The compiler proves here that an answer has the fields which the document promises. */
export type PromisedPreview = OriginJson & ContinuedJson extends z.input<typeof PreviewSchema> ? true : never;
