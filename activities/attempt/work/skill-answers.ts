/** Converts the state of a session into the next move, and the text of an agent into an answer. Pure. */
import { unfenceJson } from '../../../agents/fenced-json.ts';
import type { AnyErrorCode } from '../../../domain/errors/error-code.ts';
import type { JsonValue } from '../../../domain/plan/plan.ts';
import { findLostNumber } from '../../../domain/units/lost-number.ts';
import type { SessionStanding } from '../../ports/stage-sessions.ts';

export type NextMove =
  | {
      readonly kind: 'ask';
      readonly step: string;
      readonly turn: number;
      /** The prompt of the session; empty if the session asks again, because the refusal is enough. */
      readonly prompt: string;
      /** The schema of the answer; null: the session accepts any answer. */
      readonly schema: JsonValue;
      /** The reason why the session rejected the previous answer; null: the question is new. */
      readonly refusal: string | null;
    }
  | { readonly kind: 'done'; readonly output: unknown }
  | { readonly kind: 'failed'; readonly code: AnyErrorCode; readonly message: string }
  /** The session cannot be answered now. `untilMs` is milliseconds since the epoch; null: the time is unknown. */
  | { readonly kind: 'look'; readonly untilMs: number | null; readonly phase: string };

interface EarlierQuestion {
  readonly step: string;
  readonly turn: number;
  readonly schema: JsonValue;
}

/** @param before the last question; null: no question yet */
export function nextOf(standing: SessionStanding, before: EarlierQuestion | null): NextMove {
  switch (standing.kind) {
    case 'unopened':
      return { kind: 'failed', code: standing.code, message: standing.message };
    case 'done':
      return { kind: 'done', output: standing.finalOutput };
    case 'waiting':
      return { kind: 'look', untilMs: standing.dueMs, phase: `waiting in step ${standing.step}` };
    case 'redirect':
      return createFailure('session/failed', `the step machine leads to ${standing.redirect}, which it does not have`);
    case 'prompt': {
      const { step, turn, prompt, preamble, schema, human } = standing;
      if (human !== undefined)
        return createFailure(
          'skill/asks-person',
          `step ${step} of the step machine waits for ${human.assignee ?? 'a person'}, and an agent answers the steps of a stage`,
        );
      if (turn === undefined) return createFailure('session/failed', `step ${step} has no turn`);
      const whole = preamble === undefined || preamble === '' ? prompt : `${preamble}\n\n${prompt}`;
      return { kind: 'ask', step, turn, prompt: whole, schema: (schema ?? null) as JsonValue, refusal: null };
    }
    case 'error':
      return handleError(standing, before);
  }
}

function handleError(
  { error, step, message, retry }: Extract<SessionStanding, { readonly kind: 'error' }>,
  before: EarlierQuestion | null,
): NextMove {
  switch (error) {
    case 'validation':
    case 'action':
      if (!retry || before === null) return createFailure('session/failed', `step ${step}: ${message}`);
      return { kind: 'ask', ...before, prompt: '', refusal: message };
    case 'busy':
    case 'order':
      return { kind: 'look', untilMs: null, phase: 'waiting for the session' };
    case 'away':
      return { kind: 'look', untilMs: null, phase: "waiting for the step machine's code" };
    case 'limit':
    case 'failed':
    case 'cancelled':
      return createFailure('session/failed', step === '' ? message : `step ${step}: ${message}`);
  }
}

function createFailure(code: AnyErrorCode, message: string): NextMove {
  return { kind: 'failed', code, message };
}

/** Returns the prompt that the agent reads. */
export function renderPrompt({ prompt, schema, refusal }: Extract<NextMove, { readonly kind: 'ask' }>): string {
  const said =
    refusal === null ? prompt : `Your answer was not accepted: ${refusal}\nCorrect it and give the whole answer again.`;
  if (schema === null) return said;
  return `${said}\n\nYour last message is the answer: JSON alone, which fits this JSON Schema.\n${JSON.stringify(schema)}`;
}

/**
 * Returns the schema that the agent's command line can check: a schema of objects, without the key that names its
 * dialect. Only the session checks all other answers.
 */
export function schemaForAgent(schema: JsonValue): JsonValue | undefined {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return undefined;
  const { $schema: _dialect, ...rest } = schema as Readonly<Record<string, JsonValue>>;
  return rest['type'] === 'object' ? rest : undefined;
}

/**
 * Returns the value of an agent's last message: its JSON, or else its text. The session checks whether the value fits.
 */
export function answerIn(text: string | null): { readonly output: unknown } | { readonly problem: string } {
  if (text === null || text.trim() === '') return { problem: 'the last message is empty.' };
  const trimmed = text.trim();
  for (const candidate of [trimmed, unfenceJson(trimmed)]) {
    if (candidate === null) continue;
    let output: unknown;
    try {
      output = JSON.parse(candidate);
    } catch {
      // Plain text is a valid answer if the schema allows text.
      continue;
    }
    const number = findLostNumber(candidate);
    return number === null
      ? { output }
      : { problem: `the number ${number.slice(0, 80)} has no exact value: give it as a string.` };
  }
  return { output: text };
}
