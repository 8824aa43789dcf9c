from django.db import migrations, models

import kernel.ids


class Migration(migrations.Migration):
    dependencies = [("sync", "0001_tasks_and_ledger")]

    operations = [
        migrations.CreateModel(
            name="WatchState",
            fields=[
                ("id", models.CharField(max_length=36, primary_key=True, serialize=False)),
                ("content", models.JSONField(default=dict)),
            ],
        ),
        migrations.AddField(  # no watcher has written an episode before: there are no rows to fill
            model_name="drift",
            name="slot",
            field=models.CharField(default=kernel.ids.new_uuid7, max_length=36, unique=True),
        ),
    ]
