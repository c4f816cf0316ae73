/** Converts the output of an agent, without secrets, into events of the log and into the outcome of its work. */
import { cut } from '../../../agents/fields.ts';
import { type AgentOutcome, type AgentSaying, type AgentUsage, STREAM_LIMITS } from '../../../agents/stream.ts';
import type { RedactedData } from '../../../domain/plan/plan.ts';
import type { RunEventBody } from '../../../domain/run/event.ts';
import type { Redactor } from '../../../domain/security/redactor.ts';
import { cutToUtf8Tail } from '../../../domain/units/utf8.ts';
import { redactWhole } from '../../attempt/redacted-data.ts';

/** A saying that is recorded as an event. */
export type ToldSaying = Exclude<AgentSaying, { readonly kind: 'tool-ended' | 'login-refused' }>;

export function hasEvent(saying: AgentSaying): saying is ToldSaying {
  return saying.kind !== 'tool-ended' && saying.kind !== 'login-refused';
}

export interface TellOptions {
  readonly stage: string;
  readonly execKey: string;
  readonly redactor: Redactor;
  /**
   * Returns the usage to record for the agent's report of its usage so far. `isLast` is true if the agent has ended its
   * turn with it.
   */
  readonly used: (usage: AgentUsage, isLast: boolean) => AgentUsage;
}

/** @param hasEnded true if the agent has ended its turn with it */
export function eventBodyOf(
  { stage, execKey, redactor, used }: TellOptions,
  saying: ToldSaying,
  hasEnded: boolean,
): RunEventBody {
  const { textCharacters, nameCharacters, detailCharacters, toolOutputBytes } = STREAM_LIMITS;
  switch (saying.kind) {
    case 'text':
      return { type: 'agent-text', stage, execKey, text: redactAndCut(redactor, saying.text, textCharacters) };
    case 'tool': {
      const { failed } = saying;
      const tool = redactAndCut(redactor, saying.tool, nameCharacters);
      return {
        type: 'agent-tool',
        stage,
        execKey,
        tool,
        detail: redactAndCut(redactor, saying.detail, detailCharacters),
        failed,
      };
    }
    case 'tool-output': {
      const tool = redactAndCut(redactor, saying.tool, nameCharacters);
      return {
        type: 'agent-tool-output',
        stage,
        execKey,
        tool,
        ...cutToUtf8Tail(redactor.text(saying.text), toolOutputBytes),
      };
    }
    case 'usage':
      return { type: 'agent-usage', stage, execKey, ...used(saying.usage, hasEnded) };
  }
}

/** Redacts before it cuts, because a redactor does not find a part of a secret. */
export function redactAndCut(redactor: Redactor, text: string, most: number): string {
  return cut(redactor.text(text), most);
}

export function redactName(redactor: Redactor, text: string | null): string | null {
  return text === null ? null : redactAndCut(redactor, text, STREAM_LIMITS.nameCharacters);
}

/** The outcome of an agent, without secrets. */
export interface RedactedOutcome extends AgentOutcome {
  /** The changes that redaction made in `text`; absent: no change. */
  readonly textRedacted?: RedactedData;
}

export function redactOutcome(outcome: AgentOutcome, redactor: Redactor): RedactedOutcome {
  const { textCharacters } = STREAM_LIMITS;
  const name = (text: string | null): string | null => redactName(redactor, text);
  const { failure, text, unpricedModels } = outcome;
  const said = text === null ? null : redactWhole(text, redactor);
  return {
    ...outcome,
    ...(said === null || said.changes === null ? {} : { textRedacted: said.changes }),
    model: name(outcome.model),
    sessionId: name(outcome.sessionId),
    text: said?.text ?? null,
    failure: failure === null ? null : { ...failure, message: redactAndCut(redactor, failure.message, textCharacters) },
    ...(unpricedModels === undefined ? {} : { unpricedModels: unpricedModels.map((model) => name(model)!) }),
  };
}
