/** A question on the terminal. */

export interface Terminal {
  readonly stdin: NodeJS.ReadStream;
  readonly stderr: NodeJS.WriteStream;
}

/** Ctrl-C at a question. The terminal delivers it as a key, so no signal ends the process. */
export class Interrupted extends Error {
  constructor() {
    super('interrupted');
    this.name = 'Interrupted';
  }
}

/**
 * Asks on a terminal. Only `y` and `yes` count as agreement.
 * @returns null if the input ended, for example at Ctrl-D
 * @throws Interrupted at Ctrl-C
 */
export async function askOnTerminal({ stdin, stderr }: Terminal, question: string): Promise<boolean | null> {
  // It is not imported, because few commands ask, and a file with `import()` has no code cache (bin/load-cached.cjs).
  const { createInterface } = process.getBuiltinModule('node:readline/promises');
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    const answer = await new Promise<string | null>((resolve, reject) => {
      lines.once('SIGINT', () => reject(new Interrupted()));
      lines.once('close', () => resolve(null));
      // The promise is also rejected at the end of the input.
      lines.question(`${question} [y/N] `).then(resolve, () => resolve(null));
    });
    return answer === null ? null : /^y(?:es)?$/i.test(answer.trim());
  } catch (error) {
    stderr.write('\n');
    throw error;
  } finally {
    lines.close();
  }
}

/**
 * Asks for a secret on a terminal, which does not show what is typed.
 * @returns null if the input ended, for example at Ctrl-D
 * @throws Interrupted at Ctrl-C
 */
export async function askSecretOnTerminal({ stdin, stderr }: Terminal, question: string): Promise<string | null> {
  const { createInterface } = process.getBuiltinModule('node:readline');
  const { Writable } = process.getBuiltinModule('node:stream');
  // The editor of the line would show each key there.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: nowhere, terminal: true, historySize: 0 });
  stderr.write(`${question} `);
  try {
    return await new Promise<string | null>((resolve, reject) => {
      lines.once('SIGINT', () => reject(new Interrupted()));
      lines.once('close', () => resolve(null));
      lines.once('line', resolve);
    });
  } finally {
    stderr.write('\n');
    lines.close();
  }
}
