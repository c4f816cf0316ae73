/** What an agent is asked: the author's prompt, what lies beside it, and where the answer goes. */

export interface PromptParts {
  readonly prompt: string;
  /** The first bytes of its input; null: it has none. */
  readonly input: Uint8Array | null;
  /** Where it writes its output; null: its last message is it. */
  readonly outputFile: string | null;
}

/** Of the input, within the prompt. */
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

/** A character that the cut went through is left out. Null: the input is no text. */
function textIn(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
  } catch {
    return null;
  }
}
