from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0002_failing_loops"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="drained_at",
            field=models.DateTimeField(null=True),
        ),
    ]
