/**
 * Primitives: what an author asks of the agent without naming a tool. Each is checked here, where its author sees the stack;
 * how it is written and which tool does it is in primitives.ts.
 */
import type {
  ActBuilder,
  ActSegment,
  AskOpenConfig,
  AskStructuredConfig,
  AskUserOption,
  PrimitiveConfig,
} from '../../domain/step-machine/definition.ts';
import { refuse } from './refuse.ts';

/** Limits of the agents' tools for questions. */
const HEADER_CHARACTERS_MAX = 12;
const OPTIONS_MIN = 2;
const OPTIONS_MAX = 4;

/** The options of `act.askUser`. */
export type AskUserInput = Omit<AskStructuredConfig, 'kind'> | Omit<AskOpenConfig, 'kind'>;

export const act: ActBuilder = Object.freeze({
  askUser(input) {
    if (input.type === 'open') return segment({ kind: 'askUser', ...input });
    checkHeader('askUser', input.header);
    checkOptions('askUser: options must have 2–4 items', input.options);
    return segment({ kind: 'askUser', ...input });
  },
  confirm: (input) => segment({ kind: 'confirm', ...input }),
  plan: (input) => segment({ kind: 'plan', ...input }),
  checklist: (input) => segment({ kind: 'checklist', ...input }),
  subagent: (input) => segment({ kind: 'subagent', ...input }),
  survey(questions) {
    if (questions.length === 0) refuse(new Error('survey: must have at least 1 question'));
    for (const { header, options } of questions) {
      checkHeader('survey', header);
      checkOptions('survey: each question must have 2–4 options', options);
    }
    return segment({ kind: 'survey', questions });
  },
} satisfies ActBuilder);

function segment(primitive: PrimitiveConfig): ActSegment {
  return Object.freeze({ kind: 'act', primitive: Object.freeze(primitive) });
}

function checkHeader(primitive: string, header: string | undefined): void {
  if (header !== undefined && header.length > HEADER_CHARACTERS_MAX) {
    refuse(
      new Error(
        `${primitive}: header must be ≤${HEADER_CHARACTERS_MAX} characters, got ${header.length}. Shorten "${header}".`,
      ),
    );
  }
}

function checkOptions(rule: string, options: readonly AskUserOption[]): void {
  if (options.length < OPTIONS_MIN || options.length > OPTIONS_MAX) refuse(new Error(`${rule}, got ${options.length}`));
}
