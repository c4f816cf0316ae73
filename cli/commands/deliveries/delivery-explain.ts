import { askTokenService } from '../../../app/access/token-service.ts';
import { defineCommand } from '../../command.ts';
import { parseExplanation } from '../../deliveries/answers.ts';
import { addHeader, readPayload } from '../../deliveries/typed-event.ts';
import { EXIT } from '../../exit-code.ts';
import { renderExplanation } from '../../render/deliveries/explanation.ts';

interface Options {
  readonly header?: Readonly<Record<string, string>>;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--header'],
    examples: [
      [
        'voidbox delivery explain review pull-request event.json --header X-GitHub-Event:pull_request',
        'what the trigger makes of an event of GitHub',
      ],
      [
        'voidbox delivery explain orders paid event.json',
        'of an event or a batch of CloudEvents, whose form the file shows',
      ],
    ],
    notes: [
      [
        'The decision',
        'It is the first one, as if there were no other delivery: nothing is stored, and no run starts. Expressions read the headers of a real request only by a list.',
      ],
    ],
    exitCodes: [
      ['0', 'the trigger would start a run, now or later; of a batch, for one of its events at least'],
      ['1', 'the trigger would start no run; the last line names the reason'],
      ['2', 'an option has a mistake, or there is no such trigger'],
      ['3', 'environment: the service or its database does not answer'],
    ],
  },
  configure: (command) => {
    command
      .argument('<deployment>', 'the name of the deployment')
      .argument('<trigger>', 'the name of a trigger in its `on:`')
      .argument('<file>', 'the payload, - for standard input')
      .option('--header <name:value>', 'a header of the request; repeatable', addHeader);
  },
  async execute([deployment = '', trigger = '', file = ''], { header = {}, json }, context) {
    const { 'content-type': contentType, ...headers } = header;
    const body = Buffer.from(await readPayload(file, context)).toString('base64');
    const answer = await askTokenService(context, {
      method: 'POST',
      path: ['deployments', deployment, 'triggers', trigger, 'explain'],
      body: { json: { body, contentType, headers } },
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    const explained = parseExplanation(answer);
    const text = json === true ? JSON.stringify(explained) : renderExplanation(explained).join('\n');
    await context.stdout.write(`${text}\n`);
    const starts = explained.events.some(({ decision }) => decision?.kind === 'start' || decision?.kind === 'hold');
    return starts ? EXIT.success : EXIT.runFailed;
  },
});
