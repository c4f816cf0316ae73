/** The texts of a skill's server: its tools with their schemas, and how to use them. */
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import { inputJsonSchema } from '../author/schema.ts';
import type { ToolSpec } from './tool-set.ts';

const STRING = { type: 'string' } as const;
const BOOLEAN = { type: 'boolean' } as const;
const INTEGER = { type: 'integer' } as const;
/** Any JSON, with its types named: some hosts pass an argument without a type as a text. */
const ANY_TYPES = ['object', 'array', 'string', 'number', 'boolean', 'null'];

/** The output schema of both tools that move a session; `status` decides which fields are present. */
const SESSION_OUTPUT: ToolSpec['outputSchema'] = {
  type: 'object',
  properties: {
    session: { ...STRING, description: 'Names the session in calls of advance.' },
    status: {
      ...STRING,
      enum: ['prompt', 'waiting', 'done', 'error'],
      description:
        'prompt: a step is to be answered. waiting: come back later. done: the skill has ended. error: see message and remedy.',
    },
    step: { ...STRING, description: 'The step that is due, or that the error is about.' },
    prompt: { ...STRING, description: 'What to do in this step.' },
    schema: {
      type: ['object', 'boolean', 'null'],
      description: 'JSON Schema of the output that is due; null when any will do.',
    },
    preamble: { ...STRING, description: 'How to work and how to read prompts; given once.' },
    turn: { ...INTEGER, description: 'Number of this visit of the step.' },
    human: {
      type: 'object',
      description: 'A person is to answer: `assignee`, and by when (`dueAt`, `dueMs` since 1970).',
    },
    open: {
      type: 'array',
      items: {
        type: 'object',
        properties: { step: STRING, prompt: STRING, schema: {}, turn: INTEGER },
        required: ['step', 'prompt', 'schema', 'turn'],
      },
      description: 'Further steps that can be answered at the same time.',
    },
    dueMs: { type: 'number', description: 'When the wait is over, in milliseconds since 1970.' },
    dueAt: { ...STRING, description: 'The same, as ISO 8601.' },
    waitMs: { type: 'number', description: 'How long that is from now.' },
    finalOutput: { description: 'The result of the skill; any JSON.' },
    error: { ...STRING, description: 'The kind of error.' },
    message: STRING,
    retry: { ...BOOLEAN, description: 'The same call can be made again, corrected.' },
    remedy: { ...STRING, description: 'What to do next.' },
  },
  required: ['status'],
};

export function startTool(definition: SkillDefinition): ToolSpec {
  const { description, name, subskills = {} } = definition;
  const names = Object.keys(subskills);
  const params = paramsSchema(definition);
  const isRequired = names.length === 0 && isNonEmpty(params['required']);
  return {
    name: 'start',
    title: `Start ${name}`,
    description: `Begins a session of the skill "${name}" and gives its first prompt.${description === undefined ? '' : ` ${description}`}`,
    inputSchema: {
      type: 'object',
      properties: {
        params,
        ...(names.length === 0
          ? {}
          : {
              subskill: { ...STRING, enum: names, description: 'Starts this sub-skill on its own; `params` are its.' },
            }),
        host: { ...STRING, description: 'The program that you run in, if you know it, e.g. claude-code.' },
        tools: {
          type: 'array',
          items: STRING,
          description: 'The names of your tools, so that prompts can count on them.',
        },
        subagent: { ...BOOLEAN, description: 'True when another agent started you.' },
      },
      ...(isRequired ? { required: ['params'] } : {}),
      additionalProperties: false,
    },
    outputSchema: SESSION_OUTPUT,
    readOnly: false,
  };
}

export function advanceTool(): ToolSpec {
  return {
    name: 'advance',
    title: 'Answer a step',
    description:
      'Sends the output of the current step and returns the next prompt, or the final output. With only `session`, it returns the current state of the session and changes nothing.',
    inputSchema: {
      type: 'object',
      properties: {
        session: { ...STRING, description: 'The session that start returned.' },
        step: { ...STRING, description: 'The step to answer, as the prompt named it.' },
        output: {
          type: ANY_TYPES,
          description: "The answer: a JSON value that fits the step's schema. Not a string that holds JSON.",
        },
        turn: {
          ...INTEGER,
          description: 'The turn that the prompt named; the answer is refused when the session has moved on.',
        },
      },
      required: ['session'],
      additionalProperties: false,
    },
    outputSchema: SESSION_OUTPUT,
    readOnly: false,
  };
}

/**
 * Returns the schema of the skill's own params. If the skill has sub-skills, the params depend on `subskill`, so the
 * description contains their schemas.
 */
function paramsSchema(definition: SkillDefinition): Readonly<Record<string, unknown>> {
  const own = describeParams(definition);
  const subskills = Object.entries(definition.subskills ?? {});
  if (subskills.length === 0 && own !== null && canBeInlined(own)) return own;
  const lines = [
    ...(own === null ? [] : [`JSON Schema: ${JSON.stringify(own)}`]),
    ...subskills.flatMap(([name, sub]) => {
      const params = describeParams(sub.definition);
      return params === null ? [] : [`For subskill "${name}": ${JSON.stringify(params)}`];
    }),
  ];
  return {
    type: 'object',
    description: lines.length === 0 ? 'The skill has no params.' : `The params of the skill. ${lines.join('\n')}`,
  };
}

function describeParams({ params }: SkillDefinition): Record<string, unknown> | null {
  const schema = params === undefined ? null : inputJsonSchema(params);
  if (schema === null) return null;
  const { $schema: _dialect, ...rest } = schema;
  return rest;
}

/** References within a schema lead elsewhere once it is part of another. */
function canBeInlined(schema: Record<string, unknown>): boolean {
  return schema['type'] === 'object' && !JSON.stringify(schema).includes('"$ref"');
}

function isNonEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0;
}

/** For the model behind the client. */
export function skillInstructions({ description, name, subskills = {}, topics = {} }: SkillDefinition): string {
  const parts = [
    `"${name}" is a skill that is worked through step by step; this server keeps the sessions and decides which step comes next.${description === undefined ? '' : `\n${description}`}`,
    [
      '1. Call `start`. It gives a session, a preamble to keep to, and the first prompt.',
      '2. Do what the prompt says. Then call `advance` with the session, the step, and as `output` a JSON value that fits the schema.',
      '3. Continue until `status` is `done`; `finalOutput` is the result.',
    ].join('\n'),
    'When `status` is `error`, follow `remedy`: with `retry` true, fix the call and make it again. When it is `waiting`, come back at `dueAt`. If you have lost a prompt, call `advance` with `session` alone. Never make up a step or an answer of the user.',
  ];
  const subNames = Object.keys(subskills);
  if (subNames.length > 0) {
    parts.push(
      `Sub-skills: ${subNames.map((sub) => subskillLine(sub, subskills[sub]!.definition.description)).join('; ')}. The skill leads to them automatically; when it is clear which one is wanted, pass \`subskill\` to \`start\`.`,
    );
  }
  if (Object.keys(topics).length > 0)
    parts.push('`topics` lists what can be read up, `topic` gives one text. Neither needs a session.');
  return parts.join('\n\n');
}

function subskillLine(name: string, description: string | undefined): string {
  return description === undefined ? name : `${name} (${description})`;
}
