import { createUsageError } from '../../../app/app-error.ts';
import { countOf } from '../../typed-count.ts';
import { defineCommand } from '../../command.ts';
import { connectSessions, openSteps, printResult, readJson } from '../../skills/session-link.ts';

interface Options {
  readonly json?: boolean;
  readonly step?: string;
  readonly turn?: number;
  readonly output: string;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<session>', 'the session id')
      .requiredOption('-o, --output <json>', 'the answer: JSON, `@file`, or `-` for standard input')
      .option('-s, --step <step>', 'the step to answer; required when several are open')
      .option('-t, --turn <number>', 'the turn of the prompt; an answer to an earlier turn is rejected', countOf(9));
  },
  async execute([session = ''], options, context) {
    const output = await readJson(options.output, '--output', context);
    const sessions = await connectSessions(context);
    let { step, turn } = options;
    if (step === undefined || turn === undefined) {
      const view = await sessions.view(session);
      const open = openSteps(view).filter(
        (one) => (step === undefined || one.step === step) && (turn === undefined || one.turn === turn),
      );
      if (open.length > 1)
        throw createUsageError(
          `several steps are open: ${open.map((one) => one.step).join(', ')}`,
          'Choose one with --step.',
        );
      // With nothing open the session itself says what it is about.
      step ??= open[0]?.step ?? view.open[0]?.step ?? '';
      turn ??= open[0]?.turn ?? view.turn;
    }
    const result = await sessions.advance(session, { step, turn, output });
    return await printResult(session, result, options, context);
  },
});
