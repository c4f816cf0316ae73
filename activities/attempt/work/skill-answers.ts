/** What a session says, as something to do, and what an agent says, as an answer. Pure. */
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
      /** Of the session; of one that asks again nothing but the refusal. */
      readonly prompt: string;
      /** Null: any answer is one. */
      readonly schema: JsonValue;
      /** Why the answer before was not taken; null: it is asked for the first time. */
      readonly refusal: string | null;
    }
  | { readonly kind: 'done'; readonly output: unknown }
  | { readonly kind: 'failed'; readonly code: AnyErrorCode; readonly message: string }
  /** It cannot be answered now. `untilMs`: since the epoch; null: nobody knows when. */
  | { readonly kind: 'look'; readonly untilMs: number | null; readonly phase: string };

interface EarlierQuestion {
  readonly step: string;
  readonly turn: number;
  readonly schema: JsonValue;
}

/** @param before  what was asked last; null: nothing was */
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

/** What the agent reads. */
export function renderPrompt({ prompt, schema, refusal }: Extract<NextMove, { readonly kind: 'ask' }>): string {
  const said =
    refusal === null ? prompt : `Your answer was not accepted: ${refusal}\nCorrect it and give the whole answer again.`;
  if (schema === null) return said;
  return `${said}\n\nYour last message is the answer: JSON alone, which fits this JSON Schema.\n${JSON.stringify(schema)}`;
}

/** Command lines check the answers of objects, by schemas that name no dialect; what else there is the session alone checks. */
export function schemaForAgent(schema: JsonValue): JsonValue | undefined {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return undefined;
  const { $schema: _dialect, ...rest } = schema as Readonly<Record<string, JsonValue>>;
  return rest['type'] === 'object' ? rest : undefined;
}

/** What an agent's last message is as a value: its JSON, else its text. The session says whether it fits. */
export function answerIn(text: string | null): { readonly output: unknown } | { readonly problem: string } {
  if (text === null || text.trim() === '') return { problem: 'the last message is empty.' };
  const trimmed = text.trim();
  for (const candidate of [trimmed, unfenceJson(trimmed)]) {
    if (candidate === null) continue;
    let output: unknown;
    try {
      output = JSON.parse(candidate);
    } catch {
      // Words are an answer too, where the schema is one of a text.
      continue;
    }
    const number = findLostNumber(candidate);
    return number === null
      ? { output }
      : { problem: `the number ${number.slice(0, 80)} has no exact value: give it as a string.` };
  }
  return { output: text };
}
