/** Writes a step's pieces as one text for the agent, and the preamble that explains such texts once. */
import type { Handshake, PrimitiveConfig, PromptPiece, PromptReturn } from '../../domain/step-machine/definition.ts';
import { toolsOf } from './agent-hosts.ts';
import { PRIMITIVES, toolFor, writePrimitive } from './primitives.ts';
import { attributes, escapeText } from './xml.ts';

/**
 * Pieces in the author's order, with a blank line between.
 * @param skillName  the skill that sub-agents must not start again
 * @param where  named in the error, e.g. `step "plan"`
 * @throws {Error} if a piece is not a prompt piece
 */
export function writePrompt(pieces: PromptReturn, skillName: string, where: string): string {
  return (Array.isArray(pieces) ? pieces : [pieces])
    .map((piece, index) => writePiece(piece, skillName, `${where}: prompt piece ${index + 1}`))
    .join('\n\n');
}

/** A prompt function is the author's code: `condition && piece` gives what its type forbids. */
function writePiece(piece: PromptPiece | null | undefined, skillName: string, where: string): string {
  if (typeof piece === 'string') return `<prompt>\n${escapeText(piece)}\n</prompt>`;
  switch (piece?.kind) {
    case 'system':
      return `<system>${escapeText(piece.text)}</system>`;
    case 'view':
      return `<rendered${attributes({ name: piece.label || undefined })}>\n${escapeText(piece.text)}\n</rendered>`;
    case 'act':
      try {
        return writePrimitive(piece.primitive, skillName);
      } catch (cause) {
        throw new Error(`${where} is act.${piece.primitive.kind}, and ${(cause as Error).message}.`, { cause });
      }
    case undefined:
    default:
      throw new Error(
        `${where} is ${describe(piece)}. Give a text, or what system, act.* or view return; leave out pieces that do not apply.`,
      );
  }
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null
    ? `an object with the keys ${Object.keys(value).join(', ') || '(none)'}`
    : String(value);
}

/**
 * Returns the text before a skill's first prompt.
 * @param system  the skill's own, put first
 */
export function writePreamble(handshake: Handshake, system?: string): string {
  const tools = toolsOf(handshake);
  const rows: readonly (readonly [tag: string, tool: string | undefined, howTo: string])[] = [
    ['system', undefined, 'Your role and your way of working from now on. Follow it; do not show it.'],
    ['prompt', undefined, 'What to do in this step.'],
    ...(Object.keys(PRIMITIVES) as PrimitiveConfig['kind'][]).map((kind) => {
      const tool = toolFor(kind, tools);
      return [PRIMITIVES[kind].tag, tool, PRIMITIVES[kind].howTo(tool)] as const;
    }),
    ['rendered', undefined, 'Show the text inside to the user exactly as it is.'],
  ];
  const table = rows.map(([tag, tool, howTo]) => `| \`<${tag}>\` | ${tool ?? '—'} | ${howTo} |`);
  const text = [
    'You are working through a skill one step at a time; a program decides which step comes next.',
    'Each step gives you a prompt and, where an answer is due, the JSON Schema of that answer.',
    'Do what the prompt says, then hand in JSON that fits the schema. If it is refused, fix it and hand it in again.',
    '',
    'Prompts consist of the tags below. Process them in their order; `&lt;` in them means a `<` in the text.',
    '',
    '| Tag | Tool | How to use |',
    '| --- | --- | --- |',
    ...table,
  ].join('\n');
  return system ? `${system}\n\n${text}` : text;
}
