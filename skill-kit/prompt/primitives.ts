/**
 * Each primitive in one place: its tag, the tools that can do it in order of preference, how it is written in a prompt, and
 * what the preamble says of it with a tool and without one.
 */
import type { AskUserConfig, AskUserOption, PrimitiveConfig } from '../../domain/step-machine/definition.ts';
import { attributes, escapeText } from './xml.ts';

type Kind = PrimitiveConfig['kind'];
type ConfigOf<K extends Kind> = Extract<PrimitiveConfig, { readonly kind: K }>;

interface Primitive<K extends Kind> {
  readonly tag: string;
  readonly tools: readonly string[];
  write(config: ConfigOf<K>, skillName: string): string;
  /** @param tool  the one of `tools` that the host has */
  howTo(tool: string | undefined): string;
}

/** Question tools take few questions at a time. */
const QUESTIONS_PER_SURVEY = 4;
const TOOLS_THAT_BATCH: ReadonlySet<string> = new Set([
  'AskUserQuestion',
  'request_user_input',
  'ToolRequestUserInput',
  'question',
  'ask-user',
]);
/** The tool that moves an entry on, by the tool that makes it. */
const UPDATES: Readonly<Record<string, string>> = {
  TaskCreate: 'TaskUpdate',
  'tracker-create-task': 'tracker-update-task',
};

/** In the order of the preamble. */
export const PRIMITIVES: { readonly [K in Kind]: Primitive<K> } = {
  askUser: {
    tag: 'ask-user',
    tools: [
      'AskUserQuestion',
      'request_user_input',
      'ToolRequestUserInput',
      'ask_followup_question',
      'ask-user',
      'question',
    ],
    write: writeQuestion,
    howTo: (tool) =>
      tool === undefined
        ? 'Ask in plain text: the `question`, then the `<option>`s as a numbered list with their descriptions; several may be chosen if `multi-select="true"`. `type="open"` takes free text. Wait for the answer.'
        : `Ask with \`${tool}\`: \`question\` and \`header\` as they are, each \`<option>\` as a choice (\`label\` shown, text as its description, \`value\` in your output); several may be chosen if \`multi-select="true"\`. \`type="open"\` takes free text.`,
  },
  confirm: {
    tag: 'confirm',
    tools: ['AskUserQuestion', 'request_user_input', 'ask_followup_question'],
    write: ({ message, destructive, defaultAnswer }) =>
      `<confirm${attributes({ default: defaultAnswer ?? 'no', destructive: destructive === true })}>${escapeText(message)}</confirm>`,
    howTo: (tool) =>
      `${tool === undefined ? 'Ask in plain text for a yes or a no' : `Ask with \`${tool}\`, choices Yes and No`}; \`default\` is the answer when none is given. If \`destructive="true"\`, say that it cannot be undone and never assume a yes.`,
  },
  plan: {
    tag: 'plan',
    tools: ['EnterPlanMode', 'enter-plan-mode', 'update_plan', 'plan', 'PLAN_MODE'],
    write: ({ summary, steps }) =>
      `<plan${attributes({ summary })}>\n${steps.map((text) => `  <step>${escapeText(text)}</step>\n`).join('')}</plan>`,
    howTo: (tool) =>
      tool === undefined
        ? 'Show the `summary` and the `<step>`s as a numbered list, and ask for approval before you continue.'
        : `Present it with \`${tool}\`: the \`summary\`, then the \`<step>\`s in order. Continue when it is approved.`,
  },
  checklist: {
    tag: 'checklist',
    tools: ['TaskCreate', 'tracker-create-task', 'write-todos', 'todo', 'update_todo_list'],
    write: ({ create }) =>
      `<checklist>\n${create.map(({ title, status }) => `  <item${attributes({ status })}>${escapeText(title)}</item>\n`).join('')}</checklist>`,
    howTo(tool) {
      if (tool === undefined)
        return 'Write the `<item>`s as a checklist that stays visible, and mark each when its state changes.';
      const update = UPDATES[tool];
      return update === undefined
        ? `Register the \`<item>\`s with \`${tool}\`, and keep their state up to date with it as you work.`
        : `Register each \`<item>\` with \`${tool}\`, and set its state with \`${update}\` as you work.`;
    },
  },
  subagent: {
    tag: 'subagent',
    tools: ['Agent', 'agent', 'spawn_agent', 'CollabAgent', 'task', 'USE_SUBAGENTS', 'new_task'],
    write: ({ prompt, allowRecursion }, skillName) =>
      `<subagent${attributes({ 'no-recurse': allowRecursion === true ? undefined : skillName })}>${escapeText(prompt)}</subagent>`,
    howTo: (tool) =>
      tool === undefined
        ? 'Do the task inside yourself, keeping it apart from the rest, and use what comes of it. Do not start the skill named in `no-recurse` for it.'
        : `Give the task inside to a new agent with \`${tool}\` and use what it hands back. It must not start the skill named in \`no-recurse\`; if it runs any other skill of this kind, it passes \`--subagent\` with the tools that it has.`,
  },
  survey: {
    tag: 'survey',
    tools: [
      'AskUserQuestion',
      'request_user_input',
      'ToolRequestUserInput',
      'question',
      'ask-user',
      'ask_followup_question',
    ],
    write: ({ questions }) =>
      chunks(questions, QUESTIONS_PER_SURVEY)
        .map((chunk) => {
          const body = chunk.map(
            ({ question, header, options, multiSelect }) =>
              `  <question${attributes({ header: header || undefined, text: question, 'multi-select': multiSelect === true })}>\n${writeOptions(options, '    ')}  </question>\n`,
          );
          return `<survey>\n${body.join('')}</survey>`;
        })
        .join('\n\n'),
    howTo(tool) {
      if (tool === undefined)
        return 'Ask its `<question>`s in plain text, one by one, each with its `<option>`s as a numbered list.';
      return TOOLS_THAT_BATCH.has(tool)
        ? `Ask all its \`<question>\`s in one call of \`${tool}\`, each with its \`<option>\`s as choices.`
        : `Ask its \`<question>\`s with \`${tool}\`, one by one, each with its \`<option>\`s as choices.`;
    },
  },
};

/** Returns the text of a primitive in a prompt. */
export function writePrimitive(config: PrimitiveConfig, skillName: string): string {
  switch (config.kind) {
    case 'askUser':
      return PRIMITIVES.askUser.write(config, skillName);
    case 'confirm':
      return PRIMITIVES.confirm.write(config, skillName);
    case 'plan':
      return PRIMITIVES.plan.write(config, skillName);
    case 'checklist':
      return PRIMITIVES.checklist.write(config, skillName);
    case 'subagent':
      return PRIMITIVES.subagent.write(config, skillName);
    case 'survey':
      return PRIMITIVES.survey.write(config, skillName);
  }
}

/** The first tool of the primitive's list that is there. */
export function toolFor(kind: Kind, tools: ReadonlySet<string>): string | undefined {
  return PRIMITIVES[kind].tools.find((tool) => tools.has(tool));
}

function writeQuestion(config: AskUserConfig): string {
  if (config.type === 'open') return `<ask-user${attributes({ type: 'open', question: config.question })} />`;
  const { header, question, options, multiSelect } = config;
  const inTag = attributes({
    type: 'structured',
    header: header || undefined,
    question,
    'multi-select': multiSelect === true,
  });
  return `<ask-user${inTag}>\n${writeOptions(options, '  ')}</ask-user>`;
}

function writeOptions(options: readonly AskUserOption[], indent: string): string {
  return options
    .map(({ value, label, description = '', preview }) => {
      const shown = preview ? `\n${indent}  <preview>${escapeText(preview)}</preview>\n${indent}` : '';
      return `${indent}<option${attributes({ value, label })}>${escapeText(description)}${shown}</option>\n`;
    })
    .join('');
}

function chunks<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, index) =>
    list.slice(index * size, (index + 1) * size),
  );
}
