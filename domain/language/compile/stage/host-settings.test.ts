import { expect, test } from 'vitest';
import { readHostSettings } from './host-settings.ts';

const NONE = { provider: null, model: null, baseUrl: null, apiKeyEnv: null, ollamaBaseUrl: null };

test.each([
  [{}, null],
  [{ VOIDBOX_LLM_PROVIDER: '', OLLAMA_BASE_URL: '' }, null],
  [{ VOIDBOX_LLM_PROVIDER: 'Codex' }, { ...NONE, provider: 'codex' }],
  [{ VOIDBOX_LLM_PROVIDER: 'LMStudio' }, { ...NONE, provider: 'lm-studio' }],
  [{ VOIDBOX_LLM_MODEL: 'qwen3-coder:7b' }, { ...NONE, model: 'qwen3-coder:7b' }],
  [{ VOIDBOX_LLM_BASE_URL: 'http://127.0.0.1:80/v1' }, { ...NONE, baseUrl: 'http://127.0.0.1:80/v1' }],
  [{ VOIDBOX_LLM_BASE_URL: 'https://[::1]' }, { ...NONE, baseUrl: 'https://[::1]' }],
  [{ VOIDBOX_LLM_API_KEY_ENV: 'TEAM_KEY' }, { ...NONE, apiKeyEnv: 'TEAM_KEY' }],
  // Ollama's own variable is checked only if a spec uses it.
  [{ OLLAMA_BASE_URL: 'localhost' }, { ...NONE, ollamaBaseUrl: 'localhost' }],
])('%j', (variables, settings) => {
  expect(readHostSettings(variables)).toEqual({ settings });
});

test.each([
  [
    'VOIDBOX_LLM_PROVIDER',
    'codx',
    'is "codx", which is not a provider; did you mean "codex"?',
    /^Set it to one of claude, /,
  ],
  [
    'VOIDBOX_LLM_PROVIDER',
    'openai',
    'is "openai", which is not a provider; did you mean "codex"?',
    /^Set it to one of claude, /,
  ],
  [
    'VOIDBOX_LLM_PROVIDER',
    'constructor',
    'is "constructor", which is not a provider',
    /lm-studio, custom, or unset it\.$/,
  ],
  [
    'VOIDBOX_LLM_MODEL',
    'a\nb',
    'is "a\\nb", which is not the name of a model',
    /one line of text with at most 512 characters/,
  ],
  ['VOIDBOX_LLM_MODEL', 'a'.repeat(513), `is "${'a'.repeat(80)}", which is not the name of a model`, /at most 512/],
  [
    'VOIDBOX_LLM_BASE_URL',
    '127.0.0.1:80',
    'is "127.0.0.1:80", which is not the URL',
    /such as http:\/\/127\.0\.0\.1:8080/,
  ],
  ['VOIDBOX_LLM_BASE_URL', 'http://a:65536', 'is "http://a:65536", which is not the URL', /or unset it\.$/],
  ['VOIDBOX_LLM_BASE_URL', 'ftp://a', 'is "ftp://a", which is not the URL', /or unset it\.$/],
  ['VOIDBOX_LLM_BASE_URL', 'http://a/${{ x }}', 'is "http://a/${{ x }}", which is not the URL', /or unset it\.$/],
  ['VOIDBOX_LLM_BASE_URL', 'http://ada:secret@a', 'is a URL with a user or password, ', /VOIDBOX_LLM_API_KEY_ENV/],
  [
    'VOIDBOX_LLM_API_KEY_ENV',
    'sk-secret',
    'has a value of 9 characters, which is not the name',
    /never to the key itself/,
  ],
])('%s=%s', (name, value, message, remedy) => {
  const read = readHostSettings({ [name]: value });
  if (!('problem' in read)) throw new Error('it is taken');
  expect(read.problem.message).toContain(`${name} ${message}`);
  expect(read.problem.remedy).toMatch(remedy);
  expect(JSON.stringify(read), 'neither a key nor a password').not.toContain('secret');
});
