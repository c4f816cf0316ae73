/**
 * Checks outputs against the schemas of their stages. An author's schema runs over output of guests, so it runs in a
 * thread that can be terminated.
 */
import type { JsonValue } from '../../domain/plan/plan.ts';
import type { OutputAnswer } from '../../domain/language/schema/output-schema.ts';

/** @param text the output; null checks only the schema @throws Error if the check is not possible now */
export type CheckOutput = (schema: JsonValue, text: string | null) => Promise<OutputAnswer>;
