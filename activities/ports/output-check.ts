/** Judging outputs by the schemas of their stages. What an author wrote is judged over what guests left, so it happens where it can be ended. */
import type { JsonValue } from '../../domain/plan/plan.ts';
import type { OutputAnswer } from '../../domain/language/schema/output-schema.ts';

/**
 * @param text  the output; null asks for the schema alone
 * @throws Error when nothing can be said of it now
 */
export type CheckOutput = (schema: JsonValue, text: string | null) => Promise<OutputAnswer>;
