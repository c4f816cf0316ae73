import { expect, test } from 'vitest';
import { cpuMsOf } from '../test/rig/cpu-time.ts';
import { unfenceJson } from './fenced-json.ts';

test.each([
  ['a block of json', '```json\n{"ok": true}\n```', '{"ok": true}'],
  ['a block without a language', '```\n[1, 2]\n```', '[1, 2]'],
  ['a language in capitals', '```JSON\n"word"\n```', '"word"'],
  ['lines that end with CRLF', '```json\r\n{"a": 1}\r\n```\r\n', '{"a": 1}'],
  ['space around the block', '\n\n  ```json  \n{"a": 1}\n  ```  \n', '{"a": 1}'],
  ['tildes', '~~~json\n{"a": 1}\n~~~', '{"a": 1}'],
  ['four backticks around a string with three', '````json\n{"a": "```"}\n````', '{"a": "```"}'],
  ['digits that a number of JavaScript loses', '```json\n18446744073709551615\n```', '18446744073709551615'],
  ['several lines', '```json\n{\n  "a": 1\n}\n\n```', '{\n  "a": 1\n}'],
])('the content of one fence is taken: %s', (_name, text, content) => {
  expect(unfenceJson(text)).toBe(content);
});

test.each([
  ['no fence', '{"ok": true}'],
  ['words before the block', 'Here it is:\n```json\n{"ok": true}\n```'],
  ['words behind the block', '```json\n{"ok": true}\n```\nThis is only an example.'],
  ['two blocks', '```json\n{"ok": true}\n```\n```json\n{"ok": false}\n```'],
  ['a block that is not closed', '```json\n{"ok": true}\n'],
  ['another closing fence', '```json\n{"ok": true}\n~~~'],
  ['a closing fence that is too short', '````json\n{"ok": true}\n```'],
  ['content that is no JSON', '```json\n{ok: true}\n```'],
  ['an empty block', '```json\n```'],
  ['inline code', '```{"ok": true}```'],
  ['nothing', ''],
])('a text that is not one fence around JSON stays as it is: %s', (_name, text) => {
  expect(unfenceJson(text)).toBeNull();
});

test('a text of a million fences is read in one pass', async () => {
  const text = '```\n'.repeat(1_000_000);
  expect(await cpuMsOf(() => expect(unfenceJson(text)).toBeNull())).toBeLessThan(1_000);
});
