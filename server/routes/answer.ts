import { createRoute, type OpenAPIHono, z } from '@hono/zod-openapi';
import { answerAs } from '../../app/answers/answer-as.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { createMapping } from '../../domain/units/mapping.ts';
import { getCaller } from '../access/caller.ts';
import type { ApiOptions } from '../api-options.ts';
import { createMap, RunPath } from '../schemas.ts';
import { describeJson, PROBLEM } from './answers.ts';
import { readKnownRunId } from './run-id.ts';

const AnswerBody = z
  .strictObject({
    decision: z.enum(['approve', 'reject']),
    stage: z.string().optional().openapi({ description: 'Absent: the only stage of the run that asks.' }),
    by: z
      .string()
      .max(ANSWER_LIMITS.byCharacters)
      .optional()
      .openapi({ description: 'The name of the person. The answer of a token has the name of the token.' }),
    comment: z.string().max(ANSWER_LIMITS.commentCharacters).optional(),
    fields: createMap(z.string(), z.union([z.string(), z.number(), z.boolean()]))
      .default({})
      .openapi({ description: 'The fields that the question has, by name.' }),
  })
  .openapi('Answer');

const ReceiptSchema = z
  .object({
    runId: z.string(),
    stage: z.string(),
    attempt: z.number(),
    decision: z.string(),
    by: z.string().nullable(),
    verified: z
      .boolean()
      .openapi({ description: 'A token or a link proved who sent the answer; else `by` is a claim.' }),
    comment: z.string().nullable(),
    at: z.string(),
  })
  .openapi('AnswerReceipt');

const ANSWER = createRoute({
  method: 'post',
  path: '/runs/{runId}/answer',
  summary: 'Answers a question of a run; the same answer gets the same receipt',
  request: {
    params: RunPath,
    body: { required: true, content: { 'application/json': { schema: AnswerBody } } },
  },
  responses: { 200: describeJson('The answer that the run has recorded.', ReceiptSchema), ...PROBLEM },
});

export function addAnswerRoute(routes: OpenAPIHono, { machine }: ApiOptions): void {
  routes.openapi(ANSWER, async (context) => {
    const runId = await readKnownRunId(context, machine);
    const { decision, stage = null, by = null, comment = null, fields } = context.req.valid('json');
    const answer = { decision, stage, by, comment, fields: createMapping(Object.entries(fields)) };
    return context.json({ runId, ...(await answerAs(getCaller(context), { runId, answer }, machine)) }, 200);
  });
}
