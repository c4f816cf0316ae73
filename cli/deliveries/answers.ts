/** Answers of the API about deliveries. Its process may be of another build, so each answer is checked. */
import { createForeignError } from '../access/answers.ts';

export interface TriggeredAnswer {
  readonly delivery: string;
  readonly runId: string;
}

export function parseTriggered(answer: unknown): TriggeredAnswer {
  const { delivery, runId } = (answer ?? {}) as Partial<Record<string, unknown>>;
  if (typeof delivery === 'string' && typeof runId === 'string') return { delivery, runId };
  throw createForeignError();
}

export interface SentAnswer {
  readonly body: number;
  readonly delivery: string | null;
  readonly refusal: string | null;
}

export function parseSent(answer: unknown): readonly SentAnswer[] {
  const { sent } = (answer ?? {}) as { readonly sent?: unknown };
  if (!Array.isArray(sent)) throw createForeignError();
  return sent.map((each: unknown) => {
    const { body, delivery = null, refusal = null } = (each ?? {}) as Partial<Record<string, unknown>>;
    if (typeof body === 'number' && isTextOrNull(delivery) && isTextOrNull(refusal)) return { body, delivery, refusal };
    throw createForeignError();
  });
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}
