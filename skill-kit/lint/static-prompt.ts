/** Reads the texts of a prompt that is not a function. */
import type { PromptPiece, StepConfig } from '../../domain/step-machine/definition.ts';

type Prompt = StepConfig['prompt'];

/** Values of the options of each structured question. */
export function staticAsks(prompt: Prompt): readonly (readonly string[])[] {
  return piecesOf(prompt).flatMap((piece) => {
    if (typeof piece === 'string' || piece.kind !== 'act') return [];
    const { primitive } = piece;
    if (primitive.kind !== 'askUser' || primitive.type !== 'structured') return [];
    return [primitive.options.map(({ value }) => value)];
  });
}

export function staticTexts(prompt: Prompt): readonly string[] {
  return piecesOf(prompt).flatMap(textsIn);
}

function piecesOf(prompt: Prompt): readonly PromptPiece[] {
  if (prompt === undefined || typeof prompt === 'function') return [];
  return Array.isArray(prompt) ? prompt : [prompt];
}

/** Skips keys of primitives whose values are not prose. */
function textsIn(piece: PromptPiece): readonly string[] {
  if (typeof piece === 'string') return [piece];
  if (piece.kind !== 'act') return [piece.text];
  const texts = (value: unknown, key: string): readonly string[] => {
    if (typeof value === 'string')
      return ['kind', 'type', 'value', 'status', 'defaultAnswer'].includes(key) ? [] : [value];
    if (typeof value !== 'object' || value === null || key === 'output') return [];
    return Object.entries(value).flatMap(([inner, part]) => texts(part, Array.isArray(value) ? key : inner));
  };
  return texts(piece.primitive, '');
}
