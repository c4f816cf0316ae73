/** Every rule of lint. Names and severities are a contract; docs/skill-lint.md has one row for each. */
export interface Rule {
  readonly severity: 'error' | 'warning' | 'error or warning';
  readonly about: string;
  readonly remedy: string;
}

export const RULES = {
  syntax: { severity: 'error', about: 'a file is no TypeScript or JavaScript', remedy: 'Mend what the parser names.' },
  definition: {
    severity: 'error',
    about: 'the code of the skill fails when it is loaded',
    remedy: 'Mend what the message names; the other rules need the built definition.',
  },
  'cycle-guard': {
    severity: 'warning',
    about:
      'steps lead to each other in a circle and none of them has `maxVisits`, so that the session fails at the tenth visit',
    remedy: 'Give one of them maxVisits, and onMaxVisits to say where to go then.',
  },
  'unreachable-step': {
    severity: 'warning',
    about: 'no way leads from the entry to the step',
    remedy: 'Lead to it from a step that is reached, or remove it.',
  },
  'unknown-target': {
    severity: 'error',
    about:
      '`next` (returned names included), `onMaxVisits`, `onExpiry`, `parallel` or `call` names what does not exist',
    remedy: 'Declare the step, register the sub-skill or the topic, or correct the name.',
  },
  'entry-step': { severity: 'error', about: '`entry` names no step', remedy: 'Name one of the steps.' },
  'step-fields': {
    severity: 'error or warning',
    about: 'fields of a step that do not go together, or one that is missing',
    remedy: 'See the table of fields in docs/skill-kit.md.',
  },
  'step-numbers': {
    severity: 'error',
    about: 'a limit or a time that is no number of that kind',
    remedy: 'Write a whole number from 1, or milliseconds from 0.',
  },
  'parallel-join': {
    severity: 'error',
    about: 'a parallel branch can end the skill instead of reaching the join',
    remedy: 'Lead the branch to the join.',
  },
  'env-names': {
    severity: 'error',
    about:
      '`env` is no list of names of variables, has too many of them, one of them twice, or one that steers the program itself',
    remedy: 'List the variables that the skill reads, each once.',
  },
  'reserved-name': {
    severity: 'error',
    about: 'a step or a sub-store has a name that means something else',
    remedy: 'Give it another name.',
  },
  'unreadable-step': {
    severity: 'warning',
    about: '`store.steps.<name>` cannot read the step, because `all`, `ran` and `history` are taken',
    remedy: 'Give the step another name.',
  },
  'duplicate-step': {
    severity: 'warning',
    about: 'a step is declared twice; the later one replaces the earlier',
    remedy: 'Give one of them another name, or remove it.',
  },
  'composite-step-name': {
    severity: 'error',
    about: "a step's name contains `/`, which separates a sub-skill's name from its step's",
    remedy: 'Give it a name without `/`.',
  },
  'composite-duplicate-subskill': {
    severity: 'error',
    about: 'a sub-skill is registered twice under one name',
    remedy: 'Give one of them another name.',
  },
  'composite-duplicate-topic': {
    severity: 'error',
    about: 'a topic is registered twice under one name',
    remedy: 'Give one of them another name.',
  },
  'no-host-tool-names': {
    severity: 'error',
    about: "a prompt names a host's tool where no test has found that the host has it",
    remedy: 'Say what is to be done and let the host choose (act.*), or ask host.toolsAvailable.includes(…) first.',
  },
  'unknown-tool-names': {
    severity: 'warning',
    about: '`host.toolsAvailable.includes(…)` asks for a tool that no known host has',
    remedy: 'Correct the name.',
  },
  'host-branching-density': {
    severity: 'warning',
    about: 'more than one step of a skill looks at `host.toolsAvailable`',
    remedy: 'Use a primitive (act.*), which is written for each host.',
  },
  'primitive-schema-mismatch': {
    severity: 'error or warning',
    about:
      'an option of `act.askUser` that the response schema refuses (error), or a value of the schema that no option gives (warning)',
    remedy: 'Make the options and the values of the schema the same.',
  },
  'no-json-schema': {
    severity: 'warning',
    about:
      'the schema of an answer, or of the params, cannot be written as JSON Schema, so that nobody is told what fits',
    remedy:
      'Take a schema that can be (`z` and `type` of voidbox/skill-kit, zod from 4.2, ArkType, Valibot through toStandardJsonSchema of @valibot/to-json-schema).',
  },
  'orphan-references': {
    severity: 'warning',
    about: 'nothing mentions a file below `references/`',
    remedy: 'Load it, mention it, or remove it.',
  },
} as const satisfies Readonly<Record<string, Rule>>;

export type RuleName = keyof typeof RULES;
