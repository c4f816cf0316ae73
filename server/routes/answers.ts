/** Parts that the descriptions of routes share. */
import type { z } from '@hono/zod-openapi';
import { PROBLEM_TYPE } from '../problems.ts';
import { ProblemSchema } from '../schemas.ts';

export const PROBLEM = {
  default: { description: 'The request failed.', content: { [PROBLEM_TYPE]: { schema: ProblemSchema } } },
} as const;

export function describeJson<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
): { readonly description: string; readonly content: { readonly 'application/json': { readonly schema: Schema } } } {
  return { description, content: { 'application/json': { schema } } };
}
