/** Composes the prompt of an agent: the author's text, the input, and where to write the output. */

export interface PromptParts {
  readonly prompt: string;
  /** The first bytes of the agent's input; null: the agent gets no input. */
  readonly input: Uint8Array | null;
  /** The file for the agent's output; null: its last message is the output. */
  readonly outputFile: string | null;
}

/** The most bytes of the input that the prompt contains. */
export const INPUT_IN_PROMPT_BYTES = 4_000;

export function composePrompt({ prompt, input, outputFile }: PromptParts): string {
  const said = input === null ? '' : inputNote(input);
  return `${prompt.trimEnd()}${said}${outputFile === null ? '' : `\n\nWrite your output to ${outputFile}.`}\n`;
}

function inputNote(input: Uint8Array): string {
  const text = textIn(input.subarray(0, INPUT_IN_PROMPT_BYTES));
  if (text === null) return '\n\nThe output of the previous stage is at /workspace/input.json.';
  return `\n\nThe output of the previous stage:\n${text}\n\nIt is also at /workspace/input.json, whole.`;
}

/** Drops a character that the cut splits. Null: the input is not text. */
function textIn(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}
