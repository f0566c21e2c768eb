import { t, tool, toolkit } from '#toolcell';

const count = tool({
  name: 'count',
  description: 'Counts the words of a text.',
  input: { text: t.string('The text to count in.') },
  contentTypes: ['text'],
  run: ({ text }) => `${text.split(/\s+/).filter(Boolean).length} words`,
});

export default toolkit('{{name}}', [count]);
